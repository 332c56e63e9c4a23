//! Compresses variants of files for the cache: in a blocking thread, once for all requests that want the variant.
//!
//! Not here: whether a request gets a variant (`variants`), the table of compressions in progress (`in_flight`), and the
//! compression itself (`encoding::encoder` of sluice-http).

use std::fs::{File, Metadata};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Response};
use sluice_http::body::ResponseBody;
use sluice_http::encoding::Encoding;
use sluice_http::encoding::encoder::{Effort, encode};
use sluice_http::fault::Fault;
use sluice_settings::Precompressed;
use sluice_watch::Subject;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::body::read_part;
use crate::cache::Cache;
use crate::cache::entry::{Cached, Key};
use crate::file_cache::FileCache;
use crate::found::Found;
use crate::lookup::Files;
use crate::representation::Representation;
use crate::response::Selected;
use crate::variants::in_flight::{Awaited, InFlight, Outcome, Started};
use crate::variants::time_budget::TimeBudget;

/// The first request for a file of at most this size waits for the variant, so that it shows in a test with curl. Larger files
/// are compressed in the background while the request gets the file as it is, because it would wait for longer than the
/// variant saves.
const AWAITED_BYTES_MAX: u64 = 1 << 20;

/// Longest wait for a variant. After it the file is sent as it is.
const WAIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Compressions that run at once, for all workers together, because each keeps a processor busy.
static PERMITS: Semaphore = Semaphore::const_new(4);

/// A variant to be compressed.
pub(super) struct Task<'a> {
    pub cache: &'a FileCache,
    pub original: Original,
    pub encoding: Encoding,
}

/// The result of a request for a variant.
pub(super) enum Compressed {
    /// The variant is in the cache.
    Ready(Arc<Cached>),
    /// The variant is being compressed, and the request waits for it.
    Pending(Awaited),
    /// The request gets another representation.
    Unavailable,
}

impl Files<'_> {
    /// A variant that the server compresses: from the cache, or from a thread that compresses it now.
    pub(super) fn compress_on_demand(&self, name: &str, task: Task<'_>, representation: &Representation) -> Compressed {
        let Task {
            cache: FileCache { cache, in_flight, time },
            original,
            encoding,
        } = task;
        let variant_name = variant_name(name, encoding);
        let cached = || {
            let variant = cache.peek(self.directory, &variant_name);
            variant.filter(|variant| original.has_version_of(variant))
        };
        if let Some(variant) = cached() {
            return Compressed::Ready(variant);
        }
        let Ok(runtime) = Handle::try_current() else {
            return Compressed::Unavailable;
        };
        if !self.is_kept(cache, name, &original) || !time.has_time() || self.is_postponed() {
            return Compressed::Unavailable;
        }
        let is_awaited = original.bytes() <= AWAITED_BYTES_MAX;
        let key = Key::new(self.directory, &variant_name);
        let (outcome, awaited) = watch::channel(None);
        let awaited = match in_flight.start(&key, awaited, cached) {
            Started::Now(awaited) => {
                let job = Job {
                    cache: Arc::clone(cache),
                    in_flight: Arc::clone(in_flight),
                    time: Arc::clone(time),
                    key,
                    original,
                    representation: representation.on_demand(encoding),
                    encoding,
                    outcome,
                };
                runtime.spawn(job.run());
                awaited
            }
            Started::Earlier(awaited) => awaited,
            Started::Finished(variant) => return Compressed::Ready(variant),
            Started::TooMany => return Compressed::Unavailable,
        };
        if is_awaited {
            Compressed::Pending(awaited)
        } else {
            Compressed::Unavailable
        }
    }

    /// Whether the file is in the cache or will be. Variants of other files are not kept.
    fn is_kept(&self, cache: &Cache, name: &str, original: &Original) -> bool {
        match original {
            Original::Cached(cached) => {
                let present = cache.peek(self.directory, name);
                present.is_some_and(|present| Arc::ptr_eq(&present, cached))
            }
            Original::Open(_, metadata) => cache.would_admit(metadata),
        }
    }
}

/// The name of a variant in the cache. Names of files do not contain NUL.
fn variant_name(name: &str, encoding: Encoding) -> String {
    format!("{name}\0{encoding}")
}

/// A response that waits for a variant.
pub struct PendingVariant {
    name: String,
    original: Found,
    variant: Awaited,
    subject: Subject,
}

impl PendingVariant {
    /// Waits for a variant of `original`, which was found under `name`.
    pub(super) fn new(name: &str, original: Found, variant: Awaited, subject: Subject) -> Box<PendingVariant> {
        Box::new(PendingVariant {
            name: name.to_owned(),
            original,
            variant,
            subject,
        })
    }

    /// Waits and makes the response: with the variant, or with the file as it is if there is no variant within two seconds.
    ///
    /// # Errors
    /// As of [`Selected::respond`].
    pub async fn respond(
        mut self: Box<Self>,
        method: &Method,
        fields: &HeaderMap,
    ) -> Result<Response<ResponseBody>, Fault> {
        let variant = match timeout(WAIT_TIMEOUT, self.variant.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone().flatten(),
            Ok(Err(_)) | Err(_) => None,
        };
        let found = variant.map_or(self.original, Found::Cached);
        let precompressed = Some(Precompressed::OnDemand);
        let subject = self.subject;
        Selected {
            found,
            precompressed,
            subject,
        }
        .respond(&self.name, method, fields)
    }
}

/// The file from which a variant is made.
pub(super) enum Original {
    /// In memory.
    Cached(Arc<Cached>),
    /// Being read into the cache.
    Open(Arc<File>, Metadata),
}

impl Original {
    /// The file that was found, if it is small enough for the cache.
    pub(super) fn of(found: &Found, cache: &Cache) -> Option<Original> {
        match found {
            Found::Cached(cached) => Some(Original::Cached(Arc::clone(cached))),
            Found::File(representation, body) if body.left() <= cache.file_bytes_max() => {
                let file = Arc::clone(body.file());
                let metadata = file.metadata().ok()?;
                // The variant gets the tag of the version that was described.
                let is_described =
                    metadata.len() == body.left() && metadata.modified().ok()? == representation.modified;
                is_described.then_some(Original::Open(file, metadata))
            }
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Original::Cached(cached) => cached.content.len() as u64,
            Original::Open(_, metadata) => metadata.len(),
        }
    }

    /// Whether a variant was made from this version of the file.
    fn has_version_of(&self, variant: &Cached) -> bool {
        match self {
            Original::Cached(cached) => cached.has_version_of(variant),
            Original::Open(_, metadata) => variant.is_current(metadata),
        }
    }

    /// Whether the file was compressed in vain before.
    pub(super) fn is_incompressible(&self, encoding: Encoding) -> bool {
        matches!(self, Original::Cached(cached) if cached.variants.is_incompressible(encoding))
    }
}

/// A compression. It runs once, however many requests wait for it.
struct Job {
    cache: Arc<Cache>,
    in_flight: Arc<InFlight>,
    time: Arc<TimeBudget>,
    key: Key,
    original: Original,
    /// The representation of the variant.
    representation: Representation,
    encoding: Encoding,
    outcome: watch::Sender<Option<Outcome>>,
}

impl Job {
    async fn run(self) {
        // The semaphore is never closed.
        let Ok(permit) = PERMITS.acquire().await else { return };
        let compressed = spawn_blocking(move || {
            let _permit = permit;
            let variant = self.compress_in_time();
            if let Some(variant) = &variant {
                self.cache.insert(self.key.clone(), variant);
            }
            let _ = self.outcome.send(Some(variant));
        });
        // A panic is logged by its hook; waiting requests see that the channel is closed.
        let _ = compressed.await;
    }

    /// The variant, unless the time was used up while the job waited for its turn. The time is counted even if it is in vain.
    fn compress_in_time(&self) -> Outcome {
        if !self.time.has_time() {
            return None;
        }
        let begin = Instant::now();
        let compressed = self.compress();
        self.time.spend(begin.elapsed());
        compressed.unwrap_or_else(|error| {
            let name = self.key.name().split('\0').next().unwrap_or_default();
            tracing::warn!("file {name:?}: not compressed: {error}");
            None
        })
    }

    /// The variant; `None` if it is not smaller than the file, or the file has changed meanwhile.
    fn compress(&self) -> io::Result<Outcome> {
        let compress = |content: &[u8]| -> io::Result<Option<Vec<u8>>> {
            let encoded = encode(self.encoding, Effort::Kept, content)?;
            Ok((encoded.len() < content.len()).then_some(encoded))
        };
        let representation = || self.representation.clone();
        let variant = match &self.original {
            Original::Cached(cached) => {
                let Some(encoded) = compress(cached.content.bytes())? else {
                    cached.variants.note_incompressible(self.encoding);
                    return Ok(None);
                };
                cached.variant(representation(), self.cache.content_of(encoded))
            }
            Original::Open(file, metadata) => {
                let Some(encoded) = compress(&read_part(file, 0, metadata.len())?)? else {
                    return Ok(None);
                };
                let variant = Cached::new(representation(), self.cache.content_of(encoded), metadata);
                if !variant.is_current(&file.metadata()?) {
                    return Ok(None);
                }
                variant
            }
        };
        Ok(Some(Arc::new(variant)))
    }
}

impl Drop for Job {
    /// The job has ended or will never run. The next request starts another one if the variant is not in the cache.
    fn drop(&mut self) {
        self.in_flight.finish(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;
    use crate::directory::Directory;
    use crate::file_events::FileEvents;
    use crate::types::Types;
    use sluice_settings::compression::Compression;
    use sluice_settings::{CacheUse, CompressionSettings, FileSettings};

    #[tokio::test(start_paused = true)]
    async fn wait_for_a_variant_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.txt"), "text").unwrap();
        let directory = Directory::open(root.path()).unwrap();
        let files = Files {
            directory: &directory,
            records: None,
            cache: None,
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &Compression::new(&CompressionSettings::default()),
            precompressed: Some(Precompressed::OnDemand),
            events: FileEvents::NONE,
            postponed: None,
        };
        let respond = async |variant| {
            let pending = PendingVariant::new("a.txt", files.find("a.txt").unwrap(), variant, Subject::NONE);
            let response = pending.respond(&Method::GET, &HeaderMap::new()).await.unwrap();
            assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
            assert_eq!(response.body().length(), Some(4));
        };
        let (outcome, variant) = watch::channel(None);
        // The paused clock advances only when nothing else is to be done.
        respond(variant.clone()).await;
        outcome.send_replace(Some(None));
        respond(variant).await;
        let (dropped, variant) = watch::channel(None);
        drop(dropped);
        respond(variant).await;
    }
}
