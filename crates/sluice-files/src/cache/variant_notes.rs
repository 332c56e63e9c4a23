//! Facts about the variants of a cached file, so that no request looks again for a variant that cannot be had.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use sluice_http::encoding::Encoding;

/// Low bits of `VariantNotes::absent`, one for each encoding.
const ABSENT_BITS: usize = Encoding::ALL.len();

/// Variants that a file does not have. Each encoding has a bit.
#[derive(Default)]
pub(crate) struct VariantNotes {
    /// Low bits: precompressed variants that do not exist. High bits: `Cached::checked_at` of that finding; it no longer counts once the file is revalidated.
    absent: AtomicU64,
    incompressible: AtomicU8,
}

// Relaxed in all methods: nothing else is published with these bits, and a thread that misses one only looks once more.
impl VariantNotes {
    /// Whether the file had no such variant beside it at its last revalidation, at `checked_at`.
    pub(crate) fn is_absent(&self, encoding: Encoding, checked_at: u64) -> bool {
        let noted = self.absent.load(Ordering::Relaxed);
        noted >> ABSENT_BITS == checked_at && noted & (1 << encoding.index()) != 0
    }

    /// Notes that no such variant exists, and forgets notes of an earlier `checked_at`.
    pub(crate) fn note_absent(&self, encoding: Encoding, checked_at: u64) {
        let add = |noted: u64| {
            let is_current = noted >> ABSENT_BITS == checked_at;
            let current = if is_current { noted } else { checked_at << ABSENT_BITS };
            Some(current | (1 << encoding.index()))
        };
        let _ = self.absent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Whether the file was compressed in vain.
    pub(crate) fn is_incompressible(&self, encoding: Encoding) -> bool {
        self.incompressible.load(Ordering::Relaxed) & (1 << encoding.index()) != 0
    }

    pub(crate) fn note_incompressible(&self, encoding: Encoding) {
        self.incompressible.fetch_or(1 << encoding.index(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_variants_are_noted_until_the_file_is_revalidated() {
        let notes = VariantNotes::default();
        assert!(Encoding::ALL.iter().all(|encoding| !notes.is_absent(*encoding, 0)));
        notes.note_absent(Encoding::Gzip, 7);
        notes.note_absent(Encoding::Brotli, 7);
        let absent = |checked_at| Encoding::ALL.map(|encoding| notes.is_absent(encoding, checked_at));
        assert_eq!(absent(7), [true, false, true]);
        assert_eq!(absent(8), [false; 3]);
        notes.note_absent(Encoding::Zstd, 8);
        assert_eq!((absent(7), absent(8)), ([false; 3], [false, true, false]));
    }
}
