//! Compressed forms of a file: those that lie beside it, and those that the server makes.
//!
//! Here: which form a request gets, and what is remembered of forms. A form beside the file (`NAME.gz`) is opened as
//! any file is. One that the server makes has an entry of its own in the cache; it is sent only as long as it was made of the very
//! file that is there, so it dies with its original. Not here: the making (`making`), what the client takes
//! (`write::accept_encoding`), and the response (`file_response`).
//!
//! ```text
//! file found ─▶ answer ─┬─▶ a form beside it                     ─▶ response
//!                       ├─▶ a form in the cache                  ─▶ response
//!                       ├─▶ PendingVariant: a thread compresses it once  ─▶ response, for all who wait
//!                       └─▶ as it is                             ─▶ response
//! ```

pub mod on_demand;

use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use http::{HeaderMap, header};
use sluice_http::conditions::{self, Evaluation};
use sluice_http::encoding::Encoding;
use sluice_http::encoding::accept::Ranked;
use sluice_settings::Precompressed;

use crate::cache::Cache;
use crate::file::{Files, Found, Lookup, Selected};
use crate::representation::Representation;
use crate::response::Stored;
use crate::variants::on_demand::{Made, Original, PendingVariant};

/// The server compresses no larger files, however large the files are that the cache may keep: it would keep a thread busy for
/// seconds, for which a server that is to end would have to wait.
const MADE_BYTES_MAX: u64 = 32 << 20;

/// What is remembered of the forms of a file in the cache; each of its bits is that of an encoding.
#[derive(Default)]
pub(crate) struct Forms {
    /// Forms that do not lie beside it, in the lowest bits; above them when that was seen, by the clock of `Cached::checked`: when
    /// the file has been compared again, they are looked for again.
    absent: AtomicU64,
    /// Forms that are no smaller than the file.
    useless: AtomicU8,
}

/// Bits of `Forms::absent` that are encodings.
const ABSENT_BITS: usize = Encoding::ALL.len();

impl Forms {
    fn is_absent(&self, encoding: Encoding, checked: u64) -> bool {
        // Relaxed, as all here: nothing else is published by it, and who does not see it looks once more.
        let noted = self.absent.load(Ordering::Relaxed);
        noted >> ABSENT_BITS == checked && noted & (1 << encoding.index()) != 0
    }

    fn note_absent(&self, encoding: Encoding, checked: u64) {
        let add = |noted: u64| {
            let fresh = if noted >> ABSENT_BITS == checked {
                noted
            } else {
                checked << ABSENT_BITS
            };
            Some(fresh | (1 << encoding.index()))
        };
        let _ = self.absent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub(super) fn is_useless(&self, encoding: Encoding) -> bool {
        self.useless.load(Ordering::Relaxed) & (1 << encoding.index()) != 0
    }

    pub(super) fn note_useless(&self, encoding: Encoding) {
        self.useless.fetch_or(1 << encoding.index(), Ordering::Relaxed);
    }
}

impl Files<'_> {
    /// Describes a file of this name.
    pub(crate) fn describe(&self, name: &str, metadata: &Metadata) -> Representation {
        let mut representation = Representation::of(self.types.of(name), metadata);
        representation.has_forms = !Encoding::is_of_name(name) && self.compression.is_for(&representation.content_type);
        representation
    }

    /// Selects the representation of what was found that the client prefers, for GET or HEAD. Between equals a variant beside the
    /// file is taken, because it is there and somebody made it with care.
    pub(crate) fn select(&self, name: &str, found: Found, fields: &HeaderMap) -> Lookup {
        let as_it_is = |found| Lookup::File(Selected::as_stored(found, self.precompressed));
        if self.precompressed.is_none() {
            return as_it_is(found);
        }
        let Some(representation) = found.representation().filter(|representation| representation.has_forms) else {
            return as_it_is(found);
        };
        let ranked = self.compression.rank(fields);
        if ranked[0].is_none() {
            return as_it_is(found);
        }
        let beside = self.find_beside(name, &found, representation, &ranked);
        // What lies there is taken, unless another is liked better.
        let least = beside.as_ref().map_or(0, |(_, _, weight)| weight + 1);
        if let Some((cache, original, encoding)) = self.choose_making(&found, fields, &ranked, least) {
            match self.made(cache, name, original, representation, encoding) {
                Made::There(form) => return as_it_is(Found::Cached(form)),
                Made::Awaited(form) => {
                    // Its tag is known without it. Who does not name that is told of what comes, which may be the file.
                    let made = representation.made(encoding);
                    if conditions::names(fields, &made.validators)
                        && conditions::evaluate(fields, &made.validators) == Evaluation::NotModified
                    {
                        return Lookup::File(Selected::not_modified(made));
                    }
                    return Lookup::Pending(PendingVariant::new(name, found, form));
                }
                Made::Not => {}
            }
        }
        match beside {
            Some((representation, stored, _)) => Lookup::File(Selected::beside(representation, stored)),
            None => as_it_is(found),
        }
    }

    /// What the server may make: the best form, of those that are liked so much.
    fn choose_making(
        &self,
        found: &Found,
        fields: &HeaderMap,
        ranked: &Ranked,
        least: u16,
    ) -> Option<(&Arc<Cache>, Original, Encoding)> {
        // Parts of what is made would not be parts of what is made the next time: who asks for parts gets those of the file.
        if self.precompressed != Some(Precompressed::OnDemand) || fields.contains_key(header::RANGE) {
            return None;
        }
        let cache = self.cache()?;
        let original = Original::of(found, cache)?;
        if !(self.compression.least_bytes..=MADE_BYTES_MAX).contains(&original.bytes()) {
            return None;
        }
        let mut liked = ranked.iter().flatten();
        let best = liked.find(|(encoding, weight)| *weight >= least && !original.is_useless_as(*encoding));
        best.map(|(encoding, _)| (cache, original, *encoding))
    }

    /// The best form that lies beside the file, and its weight.
    fn find_beside(
        &self,
        name: &str,
        found: &Found,
        representation: &Representation,
        ranked: &Ranked,
    ) -> Option<(Representation, Stored, u16)> {
        // Beside a file of records may lie another one, but none of lines.
        if self.directory.records().is_some() {
            return None;
        }
        let cached = match found {
            // Before the look: what another request finds out meanwhile, it finds out for itself.
            Found::Cached(cached) => Some((cached, cached.checked())),
            _ => None,
        };
        ranked.iter().flatten().find_map(|(encoding, weight)| {
            if cached.is_some_and(|(cached, checked)| cached.forms.is_absent(*encoding, checked)) {
                return None;
            }
            let beside = self.open_beside(name, representation, *encoding);
            if let (None, Some((cached, checked))) = (&beside, cached) {
                cached.forms.note_absent(*encoding, checked);
            }
            beside.map(|(representation, stored)| (representation, stored, *weight))
        })
    }

    /// A form that lies beside the file, if it is not older than the file: then it is of an earlier one.
    fn open_beside(
        &self,
        name: &str,
        representation: &Representation,
        encoding: Encoding,
    ) -> Option<(Representation, Stored)> {
        let name = format!("{name}{}", encoding.suffix());
        if self.directory.is_program(Path::new(&name)) {
            return None;
        }
        let (beside, stored) = match self.find(&name) {
            Ok(Found::Cached(cached)) => (cached.representation.clone(), Stored::Memory(cached.content.clone())),
            Ok(Found::File(representation, body)) => (representation, Stored::File(body)),
            _ => return None,
        };
        // No coding makes nothing of something, nor of nothing.
        let is_whole = stored.length() > 0 && beside.modified >= representation.modified;
        is_whole.then(|| (representation.stored(&beside, encoding), stored))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use http::Method;

    use super::*;
    use crate::directory::Directory;
    use crate::types::Types;
    use sluice_http::body::ResponseBody;
    use sluice_settings::compression::Compression;
    use sluice_settings::{CacheSettings, CacheUse, CompressionSettings, FileSettings};

    /// A directory with an old file `a.txt` that holds this.
    fn place(content: &[u8]) -> (tempfile::TempDir, Directory) {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a.txt"), content).unwrap();
        let file = File::options().append(true).open(place.path().join("a.txt")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        let directory = Directory::open(place.path()).unwrap();
        (place, directory)
    }

    /// The answer to a client that takes gzip, and the field Content-Encoding of it.
    async fn answer(files: &Files<'_>) -> (bool, Option<String>) {
        let fields = HeaderMap::from_iter([(header::ACCEPT_ENCODING, "gzip".parse().unwrap())]);
        let found = files.find("a.txt").unwrap();
        let (was_awaited, response) = match files.select("a.txt", found, &fields) {
            Lookup::File(selected) => (false, selected.respond("a.txt", &Method::GET, &fields).unwrap()),
            Lookup::Pending(pending) => (true, pending.respond(&Method::GET, &fields).await.unwrap()),
            Lookup::Options | Lookup::Directory => panic!("a.txt is no directory"),
        };
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        (was_awaited, encoding.map(|value| value.to_str().unwrap().to_owned()))
    }

    #[tokio::test]
    async fn a_form_is_made_once_for_all_who_wait_and_then_kept() {
        let (_place, directory) = place(&b"some text ".repeat(1000));
        let cache = Arc::new(Cache::new(&CacheSettings::default()));
        let compression = Compression::new(&CompressionSettings::default());
        let files = Files {
            directory: &directory,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &compression,
            precompressed: Some(Precompressed::OnDemand),
        };
        let making = |fields: &HeaderMap| {
            let found = files.find("a.txt").unwrap();
            match files.select("a.txt", found, fields) {
                Lookup::Pending(pending) => pending,
                _ => panic!("it is not there yet"),
            }
        };
        let fields = HeaderMap::from_iter([(header::ACCEPT_ENCODING, "gzip".parse().unwrap())]);
        let waiting: Vec<_> = (0..5).map(|_| making(&fields)).collect();
        assert_eq!(cache.makings.lock().len(), 1);
        let mut places = Vec::new();
        for making in waiting {
            let response = making.respond(&Method::GET, &fields).await.unwrap();
            match response.body() {
                ResponseBody::Whole(content) => places.push(content.bytes().as_ptr()),
                _ => panic!("a form is in memory"),
            }
        }
        assert!(places.iter().all(|place| *place == places[0]), "the same bytes for all");
        assert_eq!(answer(&files).await, (false, Some("gzip".to_owned())));
        while !cache.makings.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_does_not_shrink_is_tried_once() {
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            // Knuth's MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        });
        let (_place, directory) = place(&noise.take(10_000).collect::<Vec<_>>());
        let cache = Arc::new(Cache::new(&CacheSettings::default()));
        let compression = Compression::new(&CompressionSettings::default());
        let files = Files {
            directory: &directory,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &compression,
            precompressed: Some(Precompressed::OnDemand),
        };
        assert_eq!(answer(&files).await, (true, None));
        assert_eq!(answer(&files).await, (false, None));
    }

    #[test]
    fn what_is_absent_is_believed_until_the_file_is_compared_again() {
        let forms = Forms::default();
        assert!(Encoding::ALL.iter().all(|encoding| !forms.is_absent(*encoding, 0)));
        forms.note_absent(Encoding::Gzip, 7);
        forms.note_absent(Encoding::Brotli, 7);
        let absent = |checked| Encoding::ALL.map(|encoding| forms.is_absent(encoding, checked));
        assert_eq!(absent(7), [true, false, true]);
        assert_eq!(absent(8), [false; 3]);
        forms.note_absent(Encoding::Zstd, 8);
        assert_eq!((absent(7), absent(8)), ([false; 3], [false, true, false]));
    }
}
