//! Compresses variants of files for the cache: in a blocking thread, once for all requests that want the variant.
//!
//! A request that wants a variant plans it; it is compressed once the file is to be sent (`cache_work`).

use std::io;
use std::sync::Arc;
use std::time::Instant;

use sluice_http::encoding::Encoding;
use sluice_http::encoding::encoder::{Effort, encode};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

use crate::body::read_part;
use crate::cache::FileCache;
use crate::cache::entry::{Cached, FileVersion, Key};
use crate::cache::fill::Fill;
use crate::cache::in_flight::{Awaited, Outcome, Started};
use crate::directory::Directory;
use crate::foreign::served_file::ServedFile;
use crate::found::Found;
use crate::representation::Representation;

/// The first request for a file of at most this size waits for the variant, so that a test with curl shows it. Larger files are compressed in the background,
/// while the request gets the file as it is: it would wait for longer than the variant saves.
const AWAITED_BYTES_MAX: u64 = 1 << 20;

/// Compressions that run at once, for all workers together, because each keeps a processor busy.
static PERMITS: Semaphore = Semaphore::const_new(4);

pub(super) struct Task<'a> {
    pub cache: &'a Arc<FileCache>,
    pub original: Planning<'a>,
    pub encoding: Encoding,
}

pub(super) enum Planned {
    Ready(Arc<Cached>),
    /// The file is compressed once the file is sent.
    Compress(Box<Compression>),
    /// The request gets another representation.
    Unavailable,
}

/// A compression that begins once the file is to be sent.
pub(crate) struct Compression {
    cache: Arc<FileCache>,
    key: Key,
    /// The file, if it is in the cache already; otherwise it is what was read for the request.
    original: Option<Arc<Cached>>,
    bytes: u64,
    representation: Representation,
    encoding: Encoding,
}

impl Task<'_> {
    /// Plans the variant of the file with this name: it is in the cache, or is to be compressed.
    pub(super) fn plan(self, directory: &Directory, name: &str, representation: &Representation) -> Planned {
        let Task { cache, original, encoding } = self;
        let variant_name = variant_name(name, encoding);
        if let Some(variant) = cache.peek(directory, &variant_name)
            && original.has_version_of(&variant)
        {
            return Planned::Ready(variant);
        }
        // Outside a runtime there are no blocking threads.
        if Handle::try_current().is_err() || !original.is_kept(cache, directory, name) || !cache.time.has_time() {
            return Planned::Unavailable;
        }
        Planned::Compress(Box::new(Compression {
            cache: Arc::clone(cache),
            key: Key::new(directory, &variant_name),
            bytes: original.bytes(),
            original: original.into_cached(),
            representation: representation.on_demand(encoding),
            encoding,
        }))
    }
}

impl Compression {
    /// Whether the request waits for it. See [`AWAITED_BYTES_MAX`].
    pub(crate) fn is_awaited(&self) -> bool {
        self.bytes <= AWAITED_BYTES_MAX
    }

    pub(super) fn is_unread(&self) -> bool {
        self.original.is_none()
    }

    pub(crate) fn file_name(&self) -> &str {
        self.key.file_name()
    }

    /// Begins to compress, unless another request has done so. `read` is the file, if it was read for the request. The result is the variant
    /// if another request has it compressed meanwhile; without it, the file is sent as it is.
    ///
    /// # Errors
    /// The request waits for the variant.
    pub(crate) fn begin(self, read: Option<Original>) -> Result<Option<Arc<Cached>>, Awaited> {
        let is_awaited = self.is_awaited();
        let original = self.original.clone().map(Original::Cached).or(read);
        let (Some(original), Ok(runtime)) = (original, Handle::try_current()) else {
            return Ok(None);
        };
        let cached = || {
            let variant = self.cache.peek_key(&self.key);
            variant.filter(|variant| original.has_version_of(variant))
        };
        let (outcome, awaited) = watch::channel(None);
        let awaited = match self.cache.in_flight.start(&self.key, awaited, cached) {
            Started::Now(awaited) => {
                let job = Job { plan: self, original, outcome };
                runtime.spawn(job.run());
                awaited
            }
            Started::Earlier(awaited) => awaited,
            Started::Finished(variant) => return Ok(Some(variant)),
            Started::TooMany => return Ok(None),
        };
        match is_awaited {
            true => Err(awaited),
            false => Ok(None),
        }
    }
}

fn variant_name(name: &str, encoding: Encoding) -> String {
    format!("{name}\0{encoding}")
}

/// The file from which a variant would be made, as the lookup knows it.
pub(super) enum Planning<'a> {
    Cached(&'a Arc<Cached>),
    Unread(FileVersion),
    /// Read while it is sent; its size.
    NotKept(u64),
}

impl<'a> Planning<'a> {
    /// The file that was found, if it is small enough for the cache.
    pub(super) fn of(found: &'a Found, fill: Option<&Fill>, cache: &FileCache) -> Option<Planning<'a>> {
        match (found, fill) {
            (Found::Cached(cached), _) => Some(Planning::Cached(cached)),
            (Found::File(_), Some(fill)) => Some(Planning::Unread(fill.version)),
            (Found::File(file), None) if file.body.left() <= cache.file_bytes_max() => {
                Some(Planning::NotKept(file.body.left()))
            }
            (Found::Records(file), _) if file.is_kept_at_once() => Some(Planning::Unread(file.version)),
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Planning::Cached(cached) => cached.content.len() as u64,
            Planning::Unread(version) => version.bytes,
            Planning::NotKept(bytes) => *bytes,
        }
    }

    /// Whether a variant was made from this version of the file.
    fn has_version_of(&self, variant: &Cached) -> bool {
        match self {
            Planning::Cached(cached) => cached.version == variant.version,
            Planning::Unread(version) => variant.version == *version,
            Planning::NotKept(_) => false,
        }
    }

    /// Whether the file was compressed in vain before.
    pub(super) fn is_incompressible(&self, encoding: Encoding) -> bool {
        matches!(self, Planning::Cached(cached) if cached.variants.is_incompressible(encoding))
    }

    /// Whether the file is in the cache or will be. Variants of other files are not kept.
    fn is_kept(&self, cache: &FileCache, directory: &Directory, name: &str) -> bool {
        match self {
            Planning::Cached(cached) => {
                // Another worker may have read the same version at the same time: its entry has replaced this one.
                let present = cache.peek(directory, name);
                present.is_some_and(|present| present.version == cached.version)
            }
            Planning::Unread(_) => true,
            Planning::NotKept(_) => false,
        }
    }

    fn into_cached(self) -> Option<Arc<Cached>> {
        match self {
            Planning::Cached(cached) => Some(Arc::clone(cached)),
            Planning::Unread(_) | Planning::NotKept(_) => None,
        }
    }
}

pub(crate) enum Original {
    Cached(Arc<Cached>),
    /// Being read into the cache.
    Open(Arc<ServedFile>, FileVersion),
}

impl Original {
    /// Whether a variant was made from this version of the file.
    fn has_version_of(&self, variant: &Cached) -> bool {
        match self {
            Original::Cached(cached) => cached.version == variant.version,
            Original::Open(_, version) => variant.version == *version,
        }
    }
}

/// A compression. It runs once, however many requests wait for it.
struct Job {
    plan: Compression,
    original: Original,
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
                self.plan.cache.insert(self.plan.key.clone(), variant);
            }
            let _ = self.outcome.send(Some(variant));
        });
        // A panic is logged by its hook; waiting requests see that the channel is closed.
        let _ = compressed.await;
    }

    /// The variant, unless the time was used up while the job waited for its turn. The time is counted even if it is in vain.
    fn compress_in_time(&self) -> Outcome {
        if !self.plan.cache.time.has_time() {
            return None;
        }
        let begin = Instant::now();
        let compressed = self.compress();
        self.plan.cache.time.spend(begin.elapsed());
        compressed.unwrap_or_else(|error| {
            let name = self.plan.key.file_name();
            tracing::warn!("file {name:?}: not compressed: {error}");
            None
        })
    }

    /// The variant; `None` if it is not smaller than the file, or the file has changed meanwhile.
    fn compress(&self) -> io::Result<Outcome> {
        let compress = |content: &[u8]| -> io::Result<Option<Vec<u8>>> {
            let encoded = encode(self.plan.encoding, Effort::Kept, content)?;
            Ok((encoded.len() < content.len()).then_some(encoded))
        };
        let representation = || self.plan.representation.clone();
        let variant = match &self.original {
            Original::Cached(cached) => {
                let Some(encoded) = compress(cached.content.bytes())? else {
                    cached.variants.note_incompressible(self.plan.encoding);
                    return Ok(None);
                };
                Cached::new(representation(), self.plan.cache.content_of(encoded), cached.version)
            }
            Original::Open(file, version) => {
                let Some(encoded) = compress(&read_part(file, 0, version.bytes)?)? else {
                    return Ok(None);
                };
                let variant = Cached::new(representation(), self.plan.cache.content_of(encoded), *version);
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
        self.plan.cache.in_flight.finish(&self.plan.key);
    }
}
