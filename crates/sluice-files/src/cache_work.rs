//! Work for the file cache that the lookup of a file leaves behind: files to be read into the cache, a variant to be compressed.
//!
//! Looking up a file reads none of it, because its client may yet be refused, or have it already. The work is done once the file is to be sent.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Response};
use sluice_http::body::ResponseBody;
use sluice_http::conditions::{self, Evaluation};
use sluice_http::encoding::Encoding;
use sluice_http::fault::Fault;
use sluice_watch::Tracer;
use tokio::time::timeout;

use crate::cache::FileCache;
use crate::cache::entry::Cached;
use crate::cache::fill::Fill;
use crate::cache::in_flight::Awaited;
use crate::file_events::note;
use crate::found::{Found, Stored};
use crate::response::Selected;
use crate::variants::on_demand::{Compression, Original};

/// Longest wait for a variant. After it the file is sent as it is.
const WAIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The work of the cache for a file that is to be sent.
#[derive(Default)]
pub(crate) struct CacheWork {
    /// Reads the file that was looked up.
    pub file: Option<Box<Fill>>,
    /// Reads the compressed file beside it that is sent.
    pub beside: Option<Box<Fill>>,
    /// Compressed files that are not beside it, for the notes of its entry.
    pub absent: Vec<Encoding>,
    /// Has a variant of the file compressed.
    pub compression: Option<Box<Compression>>,
}

impl CacheWork {
    /// The work; `None` if the cache needs no work.
    pub(crate) fn boxed(self) -> Option<Box<CacheWork>> {
        let has_any = self.file.is_some() || self.beside.is_some() || self.compression.is_some();
        has_any.then(|| Box::new(self))
    }
}

impl Selected {
    pub(crate) fn has_work(&self) -> bool {
        self.work.is_some() || matches!(self.found, Found::Records(_))
    }

    /// Does the work for the cache, and converts a small record file, unless the request is answered without the file (304, 412).
    ///
    /// # Errors
    /// A small record file is malformed: the server's fault. The inner error is a variant that is being compressed, for which the request waits.
    pub(crate) fn do_work(mut self, fields: &HeaderMap) -> Result<Result<Selected, Box<PendingVariant>>, Fault> {
        let is_awaited = self.is_awaited();
        let mut work = self.work.take().unwrap_or_default();
        // The tag of a variant that is waited for has been compared when it was selected.
        if !is_awaited && !self.performs(fields) {
            return Ok(Ok(self));
        }
        let compression = work.compression.take();
        let original = self.fill(*work)?;
        let Some(compression) = compression else {
            return Ok(Ok(self));
        };
        let name = compression.file_name().to_owned();
        Ok(match compression.begin(original) {
            Ok(None) => Ok(self),
            Ok(Some(variant)) => {
                self.found = Found::Cached(variant);
                Ok(self)
            }
            Err(variant) => Err(Box::new(PendingVariant { name, selected: self, variant })),
        })
    }

    /// Whether a request is answered with the file or a part of it.
    fn performs(&self, fields: &HeaderMap) -> bool {
        let representation = self.found.representation();
        representation.is_none_or(|found| conditions::evaluate(fields, &found.validators) == Evaluation::Perform)
    }

    /// Has the files read. The result is that of which a variant may be compressed.
    fn fill(&mut self, work: CacheWork) -> Result<Option<Original>, Fault> {
        let mut original = None;
        if let Some(fill) = work.file {
            original = Some(Original::Open(Arc::clone(&fill.file), fill.version));
            if let Some(cached) = read(fill, &self.tracer) {
                for encoding in work.absent {
                    cached.variants.note_absent(encoding, cached.checked_at());
                }
                if let Found::File(_) = self.found {
                    self.found = Found::Cached(Arc::clone(&cached));
                }
                original = Some(Original::Cached(cached));
            }
        }
        if let Some(fill) = work.beside
            && let Some(cached) = read(fill, &self.tracer)
            && let Found::Precompressed(variant) = &mut self.found
        {
            variant.1 = Stored::Memory(cached.content.clone());
        }
        if matches!(self.found, Found::Records(_))
            && let Found::Records(records) = std::mem::replace(&mut self.found, Found::Other)
        {
            self.found = records.read(&self.tracer)?;
            if let Found::Cached(cached) = &self.found {
                original = Some(Original::Cached(Arc::clone(cached)));
            }
        }
        Ok(original)
    }
}

/// A response that waits for a variant.
pub struct PendingVariant {
    name: String,
    selected: Selected,
    variant: Awaited,
}

impl PendingVariant {
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
        let mut selected = self.selected;
        if let Some(variant) = variant {
            selected.found = Found::Cached(variant);
        }
        selected.send(&self.name, method, fields)
    }
}

/// Reads a file into the cache: a small one now, which is the result, a larger one in the background.
pub(crate) fn read(fill: Box<Fill>, tracer: &Tracer) -> Option<Arc<Cached>> {
    match fill.read_small() {
        Ok(cached) => {
            note(tracer, || "read, and kept in the cache".into());
            Some(cached)
        }
        Err(fill) => {
            let text = "read while it is sent, and into the cache in the background";
            note(tracer, || text.into());
            fill.read_in_background(FileCache::read);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
    use sluice_settings::compression::Compression;
    use sluice_settings::{CacheSettings, CacheUse, CompressionSettings, FileSettings, Precompressed};
    use sluice_watch::Tracer;
    use tokio::sync::watch;

    use super::PendingVariant;
    use crate::cache::FileCache;
    use crate::directory::Directory;
    use crate::lookup::{Files, PathForm};
    use crate::types::Types;

    /// A lookup leaves the cache as it is, and so does a request for what the client has already; then the file is read, and a variant is compressed.
    #[tokio::test]
    async fn no_file_is_read_before_its_bytes_are_to_be_sent() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "some text ".repeat(1000)).unwrap();
        let file = File::options().append(true).open(root.path().join("a.txt")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        let cache = Arc::new(FileCache::new(&CacheSettings::default()));
        let files = Files {
            directory: &Directory::open(root.path()).unwrap(),
            records: None,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &Compression::new(&CompressionSettings::default()),
            precompressed: Some(Precompressed::OnDemand),
            tracer: &Tracer::NONE,
        };
        let with = |fields: &[(http::HeaderName, &str)]| {
            let value = |text: &str| HeaderValue::from_str(text).unwrap();
            let fields = fields.iter().map(|(name, text)| (name.clone(), value(text)));
            fields.collect::<HeaderMap>()
        };
        let look_up = |fields: &HeaderMap| {
            files
                .look_up("a.txt", PathForm::Any, &Method::GET, fields)
                .unwrap()
                .unwrap()
        };
        let is_untouched = || cache.entries().is_empty() && cache.in_flight.len() == 0;
        let plain = with(&[]);
        let tag = look_up(&plain).found.representation().unwrap().validators.etag.clone();
        let tag = tag.to_str().unwrap();
        let gzip = (header::ACCEPT_ENCODING, "gzip");
        let later = "Sat, 21 Nov 2099 00:00:00 GMT";
        for (fields, status) in [
            (with(&[(header::IF_NONE_MATCH, tag)]), StatusCode::NOT_MODIFIED),
            (with(&[(header::IF_MODIFIED_SINCE, later)]), StatusCode::NOT_MODIFIED),
            (
                with(&[gzip.clone(), (header::IF_NONE_MATCH, "*")]),
                StatusCode::NOT_MODIFIED,
            ),
            (
                with(&[gzip.clone(), (header::IF_MODIFIED_SINCE, later)]),
                StatusCode::NOT_MODIFIED,
            ),
            (
                with(&[(header::IF_MATCH, "\"other\"")]),
                StatusCode::PRECONDITION_FAILED,
            ),
        ] {
            let response = look_up(&fields).respond("a.txt", &Method::GET, &fields);
            let response = response.map(|response| response.ok().expect("it does not wait"));
            assert_eq!(
                response.map_or_else(|fault| fault.status(), |response| response.status()),
                status,
                "{fields:?}"
            );
            assert!(is_untouched(), "{fields:?}");
        }
        let selected = look_up(&with(std::slice::from_ref(&gzip)));
        assert!(selected.is_awaited() && is_untouched(), "it is only planned");
        let pending = selected.respond("a.txt", &Method::GET, &plain).unwrap().err().unwrap();
        assert_eq!(cache.entries().len(), 1, "the file was read");
        let response = pending.respond(&Method::GET, &plain).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_a_variant_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "text").unwrap();
        let files = Files {
            directory: &Directory::open(root.path()).unwrap(),
            records: None,
            cache: None,
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &Compression::new(&CompressionSettings::default()),
            precompressed: Some(Precompressed::OnDemand),
            tracer: &Tracer::NONE,
        };
        let none = HeaderMap::new();
        let respond = async |variant| {
            let looked_up = files.look_up("a.txt", PathForm::Any, &Method::GET, &none);
            let pending = PendingVariant {
                name: "a.txt".to_owned(),
                selected: looked_up.unwrap().unwrap(),
                variant,
            };
            let response = Box::new(pending).respond(&Method::GET, &none).await.unwrap();
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
