//! The variants of a file: compressed files beside it, and variants that the server compresses.
//!
//! A precompressed variant (`NAME.gz`) is opened as any file. A variant that the
//! server compresses has its own entry in the cache; it is only sent while it was made from the present version of the file.
//!
//! ```text
//! found ─▶ select ─┬─▶ precompressed variant                               ─▶ response
//!                  ├─▶ variant in the cache                                ─▶ response
//!                  ├─▶ Compression ─▶ PendingVariant: compressed once      ─▶ response to all requests that wait
//!                  └─▶ file as it is                                       ─▶ response
//! ```

pub(crate) mod on_demand;

use http::{HeaderMap, header};
use sluice_http::conditions::{self, Evaluation};
use sluice_http::encoding::Encoding;
use sluice_http::encoding::accept::Ranked;
use sluice_http::path_text::path_of;
use sluice_settings::Precompressed;

use crate::cache::fill::Fill;
use crate::cache_work::CacheWork;
use crate::file_events;
use crate::foreign;
use crate::found::{Found, Stored};
use crate::lookup::Files;
use crate::representation::Representation;
use crate::response::Selected;
use crate::variants::on_demand::{Planned, Planning, Task};

/// The server compresses no larger files, even if the cache keeps them: a thread would be busy for seconds, and a server that drains would wait for it.
const COMPRESSED_BYTES_MAX: u64 = 32 << 20;

struct Beside {
    representation: Representation,
    stored: Stored,
    /// How it is read into the cache, if it is to be kept there.
    fill: Option<Box<Fill>>,
    /// The client's quality value of its encoding, in thousandths.
    quality: u16,
}

impl Files<'_> {
    /// Selects the representation of what was found that the client prefers, for GET or HEAD. Between variants of equal
    /// quality, a precompressed one is sent, because it exists already and is often compressed better. Nothing is compressed yet.
    pub(crate) fn select(&self, name: &str, mut found: Found, fields: &HeaderMap) -> Selected {
        let work = CacheWork { file: found.take_fill(), ..CacheWork::default() };
        let has_variants = found.representation().is_some_and(|found| found.has_variants);
        if self.precompressed.is_none() || !has_variants {
            return self.selected(found, work);
        }
        let ranked = self.compression.rank(fields);
        if ranked[0].is_none() {
            let text = "no variant: the client accepts no content coding that the site offers";
            file_events::note(self.tracer, || text.into());
            return self.selected(found, work);
        }
        self.select_variant(name, found, work, fields, &ranked)
    }

    fn selected(&self, found: Found, work: CacheWork) -> Selected {
        Selected {
            found,
            work: work.boxed(),
            precompressed: self.precompressed,
            tracer: file_events::for_response(self.tracer),
        }
    }

    /// Selects the best variant of a file that may have some, or the file as it is.
    fn select_variant(
        &self,
        name: &str,
        found: Found,
        mut work: CacheWork,
        fields: &HeaderMap,
        ranked: &Ranked,
    ) -> Selected {
        let Some(representation) = found.representation() else {
            return self.selected(found, work);
        };
        let beside = self.find_beside(name, &found, representation, ranked, &mut work.absent);
        // Another variant must have a higher quality than the precompressed one.
        let least = beside.as_ref().map_or(0, |beside| beside.quality + 1);
        if let Some(task) = self.choose_task(&found, &work, fields, ranked, least) {
            let encoding = task.encoding;
            match task.plan(self.directory, name, representation) {
                Planned::Ready(variant) => {
                    let text = || format!("the variant {encoding} that the server has compressed, from the cache");
                    file_events::note(self.tracer, text);
                    return self.selected(Found::Cached(variant), work);
                }
                Planned::Compress(planned) => {
                    // The entity tag is known before the variant exists. A client that does not name it gets whatever representation is
                    // ready, unless the file would have to be read for an answer that needs none of it.
                    let variant = representation.on_demand(encoding);
                    if planned.is_awaited()
                        && (planned.is_unread() || conditions::names(fields, &variant.validators))
                        && conditions::evaluate(fields, &variant.validators) == Evaluation::NotModified
                    {
                        return self.selected(Found::NotModified(Box::new(variant)), CacheWork::default());
                    }
                    file_events::note(self.tracer, || match planned.is_awaited() {
                        true => format!("the variant {encoding} is being compressed; the request waits for it"),
                        false => format!("the variant {encoding} is compressed in the background"),
                    });
                    work.compression = Some(planned);
                }
                Planned::Unavailable => file_events::note(self.tracer, || {
                    format!("the variant {encoding} cannot be compressed now, or is no smaller")
                }),
            }
        }
        let found = match beside {
            Some(beside) => {
                let coding = beside.representation.coding;
                let text = || format!("the precompressed variant {coding:?} beside the file");
                file_events::note(self.tracer, text);
                work.beside = beside.fill;
                Found::Precompressed(Box::new((beside.representation, beside.stored)))
            }
            None => {
                if work.compression.is_none() {
                    let text = "no variant: the client accepts none of those that exist";
                    file_events::note(self.tracer, || text.into());
                }
                found
            }
        };
        self.selected(found, work)
    }

    /// The best variant that the server may compress, of those with at least the quality `least`.
    fn choose_task<'t>(
        &'t self,
        found: &'t Found,
        work: &CacheWork,
        fields: &HeaderMap,
        ranked: &Ranked,
        least: u16,
    ) -> Option<Task<'t>> {
        // Ranges are taken from the file itself, because a variant may be compressed to other bytes the next time.
        if self.precompressed != Some(Precompressed::OnDemand) || fields.contains_key(header::RANGE) {
            return None;
        }
        let cache = self.cache()?;
        // It is compressed when it is in the cache: the threads that compress are few, and none may be lost.
        if matches!(found, Found::File(file) if file.body.may_wait())
            || matches!(found, Found::Records(file) if file.may_wait())
        {
            return None;
        }
        let original = Planning::of(found, work.file.as_deref(), cache)?;
        if !(self.compression.least_bytes..=COMPRESSED_BYTES_MAX).contains(&original.bytes()) {
            return None;
        }
        let mut accepted = ranked.iter().flatten();
        let best = accepted.find(|(encoding, quality)| *quality >= least && !original.is_incompressible(*encoding));
        best.map(|(encoding, _)| Task { cache, original, encoding: *encoding })
    }

    /// The best precompressed variant. `absent` gets those that a file does not have which is not in the cache yet.
    fn find_beside(
        &self,
        name: &str,
        found: &Found,
        representation: &Representation,
        ranked: &Ranked,
        absent: &mut Vec<Encoding>,
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
            let beside = self.open_beside(name, representation, *encoding, *quality);
            match (&beside, cached) {
                // It is not known yet.
                (None, _) if foreign::has_left() => {}
                (Some(_), _) => {}
                (None, Some((cached, checked_at))) => cached.variants.note_absent(*encoding, checked_at),
                (None, None) => absent.push(*encoding),
            }
            beside
        })
    }

    /// A precompressed variant, unless it is older than the file: then it was made from an earlier version.
    fn open_beside(
        &self,
        name: &str,
        representation: &Representation,
        encoding: Encoding,
        quality: u16,
    ) -> Option<Beside> {
        let name = format!("{name}{}", encoding.suffix());
        if self.directory.is_program(&path_of(&name)) {
            return None;
        }
        let (beside, stored, fill) = self.find(&name).ok()?.into_stored()?;
        // A compressed variant is never empty.
        let is_valid = stored.length() > 0 && beside.modified >= representation.modified;
        is_valid.then(|| Beside {
            representation: representation.precompressed(&beside, encoding),
            stored,
            fill,
            quality,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use http::Method;

    use super::*;
    use crate::cache::FileCache;
    use crate::directory::Directory;
    use crate::types::Types;
    use sluice_http::body::ResponseBody;
    use sluice_settings::compression::Compression;
    use sluice_settings::{CacheSettings, CacheUse, CompressionSettings, FileSettings};
    use sluice_watch::Tracer;

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
        let selected = files.select("a.txt", found, &fields);
        let (was_pending, response) = match selected.respond("a.txt", &Method::GET, &fields).unwrap() {
            Ok(response) => (false, response),
            Err(pending) => (true, pending.respond(&Method::GET, &fields).await.unwrap()),
        };
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        (was_pending, encoding.map(|value| value.to_str().unwrap().to_owned()))
    }

    /// Two workers may read a file at the same time; the entry of the one is then replaced by that of the other.
    #[tokio::test]
    async fn variant_is_compressed_of_an_entry_that_another_one_of_its_version_has_replaced() {
        let (_root, directory) = directory(&b"some text ".repeat(1000));
        let cache = Arc::new(FileCache::new(&CacheSettings::default()));
        let files = Files {
            directory: &directory,
            records: None,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &Compression::new(&CompressionSettings::default()),
            precompressed: Some(Precompressed::OnDemand),
            tracer: &Tracer::NONE,
        };
        let plain = HeaderMap::new();
        let look_up = |fields: &HeaderMap| files.select("a.txt", files.find("a.txt").unwrap(), fields);
        let (first, second) = (look_up(&plain), look_up(&plain));
        assert!(first.respond("a.txt", &Method::GET, &plain).unwrap().is_ok());
        let found = files.find("a.txt").unwrap();
        assert!(second.respond("a.txt", &Method::GET, &plain).unwrap().is_ok());
        let fields = HeaderMap::from_iter([(header::ACCEPT_ENCODING, "gzip".parse().unwrap())]);
        let selected = files.select("a.txt", found, &fields);
        let responded = selected.respond("a.txt", &Method::GET, &fields).unwrap();
        assert!(responded.is_err(), "it is being compressed");
    }

    #[tokio::test]
    async fn variant_is_compressed_once_for_all_requests_and_cached() {
        let (_root, directory) = directory(&b"some text ".repeat(1000));
        let cache = Arc::new(FileCache::new(&CacheSettings::default()));
        let compression = Compression::new(&CompressionSettings::default());
        let files = Files {
            directory: &directory,
            records: None,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &compression,
            precompressed: Some(Precompressed::OnDemand),
            tracer: &Tracer::NONE,
        };
        let pending = |fields: &HeaderMap| {
            let found = files.find("a.txt").unwrap();
            let selected = files.select("a.txt", found, fields);
            let responded = selected.respond("a.txt", &Method::GET, fields).unwrap();
            responded.err().expect("it is not in the cache yet")
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
        let cache = Arc::new(FileCache::new(&CacheSettings::default()));
        let compression = Compression::new(&CompressionSettings::default());
        let files = Files {
            directory: &directory,
            records: None,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &compression,
            precompressed: Some(Precompressed::OnDemand),
            tracer: &Tracer::NONE,
        };
        assert_eq!(request(&files).await, (true, None));
        assert_eq!(request(&files).await, (false, None));
    }
}
