//! The variants of a file: compressed files beside it, and variants that the server compresses.
//!
//! Here: selecting the variant for a request. A precompressed variant (`NAME.gz`) is opened as any file. A variant that the
//! server compresses has its own entry in the cache; it is only sent while it was made from the present version of the file.
//! Not here: the compression (`on_demand`), the codings that a client accepts (`encoding::accept` of sluice-http), and the
//! response (`response`).
//!
//! ```text
//! found ─▶ select ─┬─▶ precompressed variant            ─▶ response
//!                  ├─▶ variant in the cache             ─▶ response
//!                  ├─▶ PendingVariant: compressed once  ─▶ response to all requests that wait
//!                  └─▶ file as it is                    ─▶ response
//! ```

pub(crate) mod in_flight;
pub mod on_demand;
pub(crate) mod time_budget;

use http::{HeaderMap, header};
use sluice_http::conditions::{self, Evaluation};
use sluice_http::encoding::Encoding;
use sluice_http::encoding::accept::Ranked;
use sluice_http::path_text::path_of;
use sluice_settings::Precompressed;

use crate::found::{Found, Stored};
use crate::lookup::Files;
use crate::representation::Representation;
use crate::response::Selected;
use crate::variants::on_demand::{Compressed, Original, PendingVariant, Task};

/// The server compresses no larger files, even if the cache keeps them, because a thread would be busy for seconds, and a
/// server that drains would have to wait for it.
const COMPRESSED_BYTES_MAX: u64 = 32 << 20;

/// A precompressed variant.
struct Beside {
    representation: Representation,
    stored: Stored,
    /// The client's quality value of its encoding, in thousandths.
    quality: u16,
}

impl Files<'_> {
    /// Selects the representation of what was found that the client prefers, for GET or HEAD. Between variants of equal
    /// quality, a precompressed one is sent, because it exists already and is often compressed better.
    ///
    /// # Errors
    /// The variant is being compressed, and the request waits for it.
    pub(crate) fn select(&self, name: &str, found: Found, fields: &HeaderMap) -> Result<Selected, Box<PendingVariant>> {
        let precompressed = self.precompressed;
        let select = |found| {
            Ok(Selected {
                found,
                precompressed,
                subject: self.events.subject(),
            })
        };
        if self.precompressed.is_none() {
            return select(found);
        }
        let Some(representation) = found
            .representation()
            .filter(|representation| representation.has_variants)
        else {
            return select(found);
        };
        let ranked = self.compression.rank(fields);
        if ranked[0].is_none() {
            self.events
                .note(|| "no variant: the client accepts no content coding that the site offers".into());
            return select(found);
        }
        let beside = self.find_beside(name, &found, representation, &ranked);
        // Another variant must have a higher quality than the precompressed one.
        let least = beside.as_ref().map_or(0, |beside| beside.quality + 1);
        if let Some(task) = self.choose_task(&found, fields, &ranked, least) {
            let encoding = task.encoding;
            match self.compress_on_demand(name, task, representation) {
                Compressed::Ready(variant) => {
                    self.events
                        .note(|| format!("the variant {encoding} that the server has compressed, from the cache"));
                    return select(Found::Cached(variant));
                }
                Compressed::Pending(awaited) => {
                    // The entity tag is known before the variant exists. A client that does not send it gets whatever
                    // representation is ready.
                    let variant = representation.on_demand(encoding);
                    if conditions::names(fields, &variant.validators)
                        && conditions::evaluate(fields, &variant.validators) == Evaluation::NotModified
                    {
                        return select(Found::NotModified(Box::new(variant)));
                    }
                    self.events
                        .note(|| format!("the variant {encoding} is being compressed; the request waits for it"));
                    return Err(PendingVariant::new(name, found, awaited, self.events.subject()));
                }
                Compressed::Unavailable => self
                    .events
                    .note(|| format!("the variant {encoding} cannot be compressed now, or is no smaller")),
            }
        }
        self.events.note(|| match &beside {
            Some(beside) => format!(
                "the precompressed variant {:?} beside the file",
                beside.representation.coding
            ),
            None => "no variant: the client accepts none of those that exist".into(),
        });
        match beside {
            Some(beside) => select(Found::Precompressed(Box::new((beside.representation, beside.stored)))),
            None => select(found),
        }
    }

    /// The best variant that the server may compress, of those with at least the quality `least`.
    fn choose_task(&self, found: &Found, fields: &HeaderMap, ranked: &Ranked, least: u16) -> Option<Task<'_>> {
        // Ranges are taken from the file itself, because a variant may be compressed to other bytes the next time.
        if self.precompressed != Some(Precompressed::OnDemand) || fields.contains_key(header::RANGE) {
            return None;
        }
        let cache = self.cache()?;
        let original = Original::of(found, &cache.cache)?;
        if !(self.compression.least_bytes..=COMPRESSED_BYTES_MAX).contains(&original.bytes()) {
            return None;
        }
        let mut accepted = ranked.iter().flatten();
        let best = accepted.find(|(encoding, quality)| *quality >= least && !original.is_incompressible(*encoding));
        best.map(|(encoding, _)| Task {
            cache,
            original,
            encoding: *encoding,
        })
    }

    /// The best precompressed variant.
    fn find_beside(
        &self,
        name: &str,
        found: &Found,
        representation: &Representation,
        ranked: &Ranked,
    ) -> Option<Beside> {
        // A compressed file beside a record file contains records, not lines.
        if self.records.is_some() {
            return None;
        }
        let cached = match found {
            // The time is read first: a note of a concurrent request for a later version does not count for this one.
            Found::Cached(cached) => Some((cached, cached.checked_at())),
            _ => None,
        };
        ranked.iter().flatten().find_map(|(encoding, quality)| {
            if cached.is_some_and(|(cached, checked_at)| cached.variants.is_absent(*encoding, checked_at)) {
                return None;
            }
            let beside = self.open_beside(name, representation, *encoding);
            if let (None, Some((cached, checked_at))) = (&beside, cached) {
                cached.variants.note_absent(*encoding, checked_at);
            }
            beside.map(|(representation, stored)| Beside {
                representation,
                stored,
                quality: *quality,
            })
        })
    }

    /// A precompressed variant, unless it is older than the file: then it was made from an earlier version.
    fn open_beside(
        &self,
        name: &str,
        representation: &Representation,
        encoding: Encoding,
    ) -> Option<(Representation, Stored)> {
        let name = format!("{name}{}", encoding.suffix());
        if self.directory.is_program(&path_of(&name)) {
            return None;
        }
        let (beside, stored) = self.find(&name).ok()?.into_stored()?;
        // A compressed variant is never empty.
        let is_valid = stored.length() > 0 && beside.modified >= representation.modified;
        is_valid.then(|| (representation.precompressed(&beside, encoding), stored))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use http::Method;

    use super::*;
    use crate::directory::Directory;
    use crate::file_cache::FileCache;
    use crate::file_events::FileEvents;
    use crate::types::Types;
    use sluice_http::body::ResponseBody;
    use sluice_settings::compression::Compression;
    use sluice_settings::{CacheSettings, CacheUse, CompressionSettings, FileSettings};

    /// A directory with an old file `a.txt` with this content.
    fn directory(content: &[u8]) -> (tempfile::TempDir, Directory) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), content).unwrap();
        let file = File::options().append(true).open(root.path().join("a.txt")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        let directory = Directory::open(root.path()).unwrap();
        (root, directory)
    }

    /// Requests `a.txt` with gzip: whether the response was pending, and its Content-Encoding.
    async fn request(files: &Files<'_>) -> (bool, Option<String>) {
        let fields = HeaderMap::from_iter([(header::ACCEPT_ENCODING, "gzip".parse().unwrap())]);
        let found = files.find("a.txt").unwrap();
        let (was_pending, response) = match files.select("a.txt", found, &fields) {
            Ok(selected) => (false, selected.respond("a.txt", &Method::GET, &fields).unwrap()),
            Err(pending) => (true, pending.respond(&Method::GET, &fields).await.unwrap()),
        };
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        (was_pending, encoding.map(|value| value.to_str().unwrap().to_owned()))
    }

    #[tokio::test]
    async fn variant_is_compressed_once_for_all_requests_and_cached() {
        let (_root, directory) = directory(&b"some text ".repeat(1000));
        let cache = FileCache::new(&CacheSettings::default());
        let compression = Compression::new(&CompressionSettings::default());
        let files = Files {
            directory: &directory,
            records: None,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &compression,
            precompressed: Some(Precompressed::OnDemand),
            events: FileEvents::NONE,
            postponed: None,
        };
        let pending = |fields: &HeaderMap| {
            let found = files.find("a.txt").unwrap();
            files
                .select("a.txt", found, fields)
                .err()
                .expect("it is not in the cache yet")
        };
        let fields = HeaderMap::from_iter([(header::ACCEPT_ENCODING, "gzip".parse().unwrap())]);
        let waiting: Vec<_> = (0..5).map(|_| pending(&fields)).collect();
        assert_eq!(cache.in_flight.len(), 1);
        let mut addresses = Vec::new();
        for variant in waiting {
            let response = variant.respond(&Method::GET, &fields).await.unwrap();
            match response.body() {
                ResponseBody::Whole(content) => addresses.push(content.bytes().as_ptr()),
                _ => panic!("a variant is in memory"),
            }
        }
        assert!(
            addresses.iter().all(|address| *address == addresses[0]),
            "the same bytes for all"
        );
        assert_eq!(request(&files).await, (false, Some("gzip".to_owned())));
        while cache.in_flight.len() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn incompressible_file_is_compressed_once() {
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            // Knuth's MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        });
        let (_root, directory) = directory(&noise.take(10_000).collect::<Vec<_>>());
        let cache = FileCache::new(&CacheSettings::default());
        let compression = Compression::new(&CompressionSettings::default());
        let files = Files {
            directory: &directory,
            records: None,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &compression,
            precompressed: Some(Precompressed::OnDemand),
            events: FileEvents::NONE,
            postponed: None,
        };
        assert_eq!(request(&files).await, (true, None));
        assert_eq!(request(&files).await, (false, None));
    }
}
