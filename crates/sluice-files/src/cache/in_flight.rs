//! Compressions in progress: each variant is compressed once, however many requests wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::cache::entry::{Cached, Key};

/// Variants that are being compressed or wait for it. Beyond this files are sent uncompressed, and a later request starts the compression.
pub(crate) const IN_FLIGHT_MAX: usize = 256;

/// The result of a compression: `None` if the file is sent uncompressed, because it failed or does not make it smaller.
pub(crate) type Outcome = Option<Arc<Cached>>;

/// A variant that is being compressed: nothing until the compression has ended.
pub(crate) type Awaited = watch::Receiver<Option<Outcome>>;

#[derive(Default)]
pub(crate) struct InFlight(Mutex<HashMap<Key, Awaited>>);

pub(crate) enum Started {
    /// By this request, which must run the compression.
    Now(Awaited),
    Earlier(Awaited),
    Finished(Arc<Cached>),
    TooMany,
}

impl InFlight {
    /// Registers the compression of a variant, unless it is in progress, or has ended, in which case `cached` returns its result.
    pub(crate) fn start(&self, key: &Key, variant: Awaited, cached: impl Fn() -> Outcome) -> Started {
        let mut in_flight = self.lock();
        if let Some(variant) = in_flight.get(key) {
            return Started::Earlier(variant.clone());
        }
        if let Some(variant) = cached() {
            return Started::Finished(variant);
        }
        if in_flight.len() >= IN_FLIGHT_MAX {
            return Started::TooMany;
        }
        in_flight.insert(key.clone(), variant.clone());
        Started::Now(variant)
    }

    pub(crate) fn finish(&self, key: &Key) {
        self.lock().remove(key);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Awaited>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    #[test]
    fn compressions_in_progress_are_bounded() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::open(root.path()).unwrap();
        let in_flight = InFlight::default();
        let (_outcome, variant) = watch::channel(None);
        let start = |number: usize| {
            let key = Key::new(&directory, &number.to_string());
            in_flight.start(&key, variant.clone(), || None)
        };
        assert!((0..IN_FLIGHT_MAX).all(|number| matches!(start(number), Started::Now(_))));
        assert!(matches!(start(0), Started::Earlier(_)), "it is in progress");
        assert!(matches!(start(IN_FLIGHT_MAX), Started::TooMany));
    }
}
