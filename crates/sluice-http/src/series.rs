//! The numbers of series of counters: those of a site, or of a script, are found by a number.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of what has no name.
pub const UNNAMED: u16 = 0;

/// Names with a number of their own. Further ones share a number, so that their count is bounded.
pub const NAMES_MAX: usize = 200;

/// Numbers are below.
pub const NUMBERS: usize = NAMES_MAX + 2;

/// The names of series. A name keeps its number as long as the server runs, because a counter must not fall.
#[derive(Debug, Default)]
pub struct SeriesNames<N> {
    names: Mutex<Vec<N>>,
}

impl<N: Clone + PartialEq> SeriesNames<N> {
    /// The number of a name, from 1; that of `other` if `NAMES_MAX` names have one. Not for each request: it takes a lock.
    pub fn number(&self, name: &N, other: &N) -> u16 {
        let mut names = self.lock();
        let wanted = match names.len() < NAMES_MAX {
            true => name,
            false => names.iter().find(|known| *known == name).map_or(other, |_| name),
        };
        let place = names.iter().position(|known| known == wanted).unwrap_or_else(|| {
            names.push(wanted.clone());
            names.len() - 1
        });
        u16::try_from(place + 1).unwrap_or(UNNAMED)
    }

    /// The names with their numbers.
    pub fn all(&self) -> Vec<(u16, N)> {
        (1..).zip(self.lock().iter().cloned()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<N>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_further_names_share_one() {
        let names = SeriesNames::default();
        let number = |name: usize| names.number(&name, &usize::MAX);
        for name in 0..NAMES_MAX {
            assert_eq!(usize::from(number(name)), name + 1);
        }
        assert_eq!((number(7), number(1000), number(1001)), (8, 201, 201));
        assert_eq!(names.all().last(), Some(&(201, usize::MAX)));
        assert!(names.all().iter().all(|(number, _)| usize::from(*number) < NUMBERS));
    }
}
