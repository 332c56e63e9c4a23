//! The id of an exchange: in the log, in a script's UNIQUE_ID, and on error pages.

use std::fmt;

/// An id that is unique across restarts and workers: eight random characters for each start of the server, then worker and count. Those are permuted
/// with a random key, so that the ids on two error pages do not tell how many requests came between them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; UniqueId::BYTES]);

/// The source of the ids of one start of the server.
#[derive(Clone, Copy)]
pub struct IdSource {
    /// The same in all of them.
    boot: [u8; 8],
    keys: [u64; IdSource::ROUNDS],
}

impl IdSource {
    /// Random bytes that a source is made of.
    pub const RANDOM_BYTES: usize = 8 + 8 * IdSource::ROUNDS;

    /// Four rounds make a Feistel network a permutation that looks random (Luby and Rackoff, 1988).
    const ROUNDS: usize = 4;

    /// Worker and count are permuted in two halves of this many bits.
    const HALF_BITS: u32 = 26;

    /// Bits of the count, ten less than of the number: at a million requests a second it repeats after 50 days.
    const COUNT_BITS: u32 = 42;

    /// A source made of random bytes.
    pub fn new(random: [u8; IdSource::RANDOM_BYTES]) -> IdSource {
        const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let (boot, keys) = random.split_at(8);
        let mut source = IdSource { boot: [0; 8], keys: [0; IdSource::ROUNDS] };
        for (digit, byte) in source.boot.iter_mut().zip(boot) {
            *digit = DIGITS[usize::from(byte % 32)];
        }
        for (key, bytes) in source.keys.iter_mut().zip(keys.chunks_exact(8)) {
            *key = bytes.iter().fold(0, |key, byte| key << 8 | u64::from(*byte));
        }
        source
    }

    /// The id of a worker's exchange number `count`. Workers are numbered from 0, up to 1023.
    pub fn id(&self, worker: usize, count: u64) -> UniqueId {
        const NUMBERS: u64 = 1 << (2 * IdSource::HALF_BITS);
        let count = count & ((1 << IdSource::COUNT_BITS) - 1);
        let number = ((worker as u64) << IdSource::COUNT_BITS | count) % NUMBERS;
        UniqueId::new(self.boot, self.permute(number))
    }

    /// A permutation of the numbers below 2⁵²: a Feistel network.
    fn permute(&self, number: u64) -> u64 {
        const MASK: u64 = (1 << IdSource::HALF_BITS) - 1;
        let (mut left, mut right) = (number >> IdSource::HALF_BITS, number & MASK);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & MASK));
        }
        left << IdSource::HALF_BITS | right
    }
}

/// Every bit of the result depends on all bits of the number (the finalizer of splitmix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl UniqueId {
    const BYTES: usize = 21;

    /// The id with the lower 52 bits of a number, of the start `boot`.
    pub fn new(boot: [u8; 8], number: u64) -> UniqueId {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; Self::BYTES];
        text[..8].copy_from_slice(&boot);
        for (index, digit) in text[8..].iter_mut().enumerate() {
            let shift = 4 * (12 - index);
            *digit = HEX[(number >> shift & 0xf) as usize];
        }
        UniqueId(text)
    }

    /// The id as 21 characters: eight of the start of the server, then thirteen hexadecimal digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("-")
    }

    /// The same, as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn source(seed: u8) -> IdSource {
        let mut random = [seed; IdSource::RANDOM_BYTES];
        for index in 1..random.len() {
            random[index] = random[index - 1].wrapping_mul(31).wrapping_add(7);
        }
        IdSource::new(random)
    }

    #[test]
    fn ids_are_unique_and_begin_with_the_start_of_the_server() {
        let source = source(1);
        let workers = [0, 1, 255, 256, 1023];
        let ids: Vec<UniqueId> = workers
            .iter()
            .flat_map(|worker| (0..5000).map(move |count| source.id(*worker, count)))
            .chain([source.id(0, 1 << 32), source.id(1023, (1 << 42) - 1)])
            .collect();
        let texts: HashSet<&str> = ids.iter().map(UniqueId::as_str).collect();
        assert_eq!(texts.len(), ids.len());
        assert!(ids.iter().all(|id| id.as_str()[..8] == ids[0].as_str()[..8]));
    }

    #[test]
    fn the_ids_of_two_exchanges_do_not_tell_how_many_came_between() {
        let number = |source: &IdSource, count| u64::from_str_radix(&source.id(0, count).as_str()[8..], 16).unwrap();
        let (one, other) = (source(1), source(2));
        let steps: HashSet<u64> = (0..1000)
            .map(|count| number(&one, count + 1).wrapping_sub(number(&one, count)))
            .collect();
        assert!(steps.len() > 990, "{} different distances", steps.len());
        assert!(
            (0..1000)
                .filter(|count| number(&one, *count) == number(&other, *count))
                .count()
                < 5
        );
    }
}
