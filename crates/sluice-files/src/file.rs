//! Files: from a name to a response, by way of the cache where there is one.
//!
//! Here: where a file's bytes are found. Not here: which page of a directory is sent (`accept::serve`), what may be opened at all (`directory`),
//! how long content is kept (`cache`), how a file is read while it is sent (`file_body`), what it is described by
//! (`representation`), its compressed forms (`encodings`), and the response that is made of it (`file_response`).

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Absent, Activity, ClientFault, Fault, Forbidden, IoFailure, ServerFault};
use sluice_http::head;
use sluice_settings::compression::Compression;
use sluice_settings::{CacheUse, Precompressed};

use crate::body::{FileBody, read_cached};
use crate::cache::{Cache, Cached, Known};
use crate::directory::Directory;
use crate::records::RecordBody;
use crate::representation::Representation;
use crate::response::{Stored, not_modified, respond, respond_stored};
use crate::types::Types;
use crate::variants::on_demand::PendingVariant;

/// Files up to this many bytes are read in one go, so that head and body leave in one write. Larger ones, and those that the
/// kernel does not have in memory, are read for the cache by a thread that may wait for a disk, while the first request is
/// served from the file itself.
pub(crate) const WHOLE_BYTES_MAX: u64 = 64 << 10;

const METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::OPTIONS];

/// Files below a directory, by way of the cache where there is one.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    pub directory: &'a Directory,
    pub cache: Option<&'a Arc<Cache>>,
    pub cache_use: CacheUse,
    pub types: &'a Types,
    /// What of the site may be compressed.
    pub compression: &'a Compression,
    /// The compressed variants in which they may be sent, if any. Routes that share cached files differ in it, so nothing that is
    /// cached may depend on it.
    pub precompressed: Option<Precompressed>,
}

/// What a name leads to.
pub(crate) enum Found {
    Cached(Arc<Cached>),
    File(Representation, FileBody),
    Records(Representation, RecordBody),
    Directory,
    /// A socket, a device.
    Other,
}

impl Found {
    /// What is said of a file.
    pub(crate) fn representation(&self) -> Option<&Representation> {
        match self {
            Found::Cached(cached) => Some(&cached.representation),
            Found::File(representation, _) | Found::Records(representation, _) => Some(representation),
            Found::Directory | Found::Other => None,
        }
    }

    /// A file that is sent as it is stored.
    pub(crate) fn into_stored(self) -> Option<(Representation, Stored)> {
        match self {
            Found::Cached(cached) => Some((cached.representation.clone(), Stored::Memory(cached.content.clone()))),
            Found::File(representation, body) => Some((representation, Stored::File(body))),
            Found::Records(..) | Found::Directory | Found::Other => None,
        }
    }
}

/// What a path below a directory leads to.
pub enum Lookup {
    /// A file, in the representation that the request gets.
    File(Selected),
    /// A file whose compressed variant is being made.
    Pending(Box<PendingVariant>),
    /// A file or directory that OPTIONS asks about.
    Options,
    /// A directory.
    Directory,
}

/// A file in the representation that was selected for a request (RFC 9110 §12).
pub struct Selected {
    content: SelectedContent,
    /// The variants that the file is offered in, if any: they decide about the field Vary.
    precompressed: Option<Precompressed>,
}

enum SelectedContent {
    /// The file as it is stored.
    AsStored(Found),
    /// A variant that lies beside the file.
    Static(Representation, Stored),
    /// A variant that is not made yet, and that the client has already.
    NotModified(Representation),
}

impl Selected {
    pub(crate) fn as_stored(found: Found, precompressed: Option<Precompressed>) -> Selected {
        Selected {
            content: SelectedContent::AsStored(found),
            precompressed,
        }
    }

    pub(crate) fn beside(representation: Representation, stored: Stored) -> Selected {
        Selected {
            content: SelectedContent::Static(representation, stored),
            precompressed: None,
        }
    }

    pub(crate) fn not_modified(representation: Representation) -> Selected {
        Selected {
            content: SelectedContent::NotModified(representation),
            precompressed: None,
        }
    }

    /// The response to GET or HEAD: 200, 206 or 304. `path` names the file in messages.
    ///
    /// # Errors
    /// The client's: a condition fails (412), or no byte is in its ranges (416).
    pub fn respond(self, path: &str, method: &Method, fields: &HeaderMap) -> Result<Response<ResponseBody>, Fault> {
        match self.content {
            SelectedContent::AsStored(found) => respond(path, found, self.precompressed, method, fields),
            SelectedContent::Static(representation, stored) => {
                respond_stored(path, representation, stored, method, fields)
            }
            SelectedContent::NotModified(representation) => Ok(not_modified(&representation)),
        }
    }
}

/// What a path names, as the path is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathForm {
    /// It ends with a slash: a directory, or nothing.
    Directory,
    /// It does not.
    Any,
}

/// The response to OPTIONS for a file or directory: its methods. Conditions and ranges have no meaning here (RFC 9110 §13.2.1,
/// §14.2).
#[must_use]
pub fn respond_options() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, head::allow(METHODS));
    response
}

impl Files<'_> {
    /// Looks up what `relative` names, and selects the representation that the request gets. Opens the file, unless it is in the
    /// cache, and makes no response.
    ///
    /// # Errors
    /// The client's: nothing is there (404), it may not be read (403), the method is not one for files (405). The server's: the
    /// system refuses (500).
    pub fn look_up(
        &self,
        relative: &str,
        form: PathForm,
        method: &Method,
        fields: &HeaderMap,
    ) -> Result<Lookup, Fault> {
        if !METHODS.contains(method) {
            return Err(ClientFault::method_not_allowed(method, METHODS).into());
        }
        let name = relative.trim_matches('/');
        match (self.find(name)?, form) {
            (Found::Directory, _) if *method == Method::OPTIONS => Ok(Lookup::Options),
            (Found::Directory, _) => Ok(Lookup::Directory),
            (_, PathForm::Directory) | (Found::Other, _) => Err(not_found(name)),
            (_, _) if *method == Method::OPTIONS => Ok(Lookup::Options),
            (found, _) => Ok(self.select(name, found, fields)),
        }
    }

    /// The same for an index page, which GET or HEAD asks for; `None` if it is not there.
    ///
    /// # Errors
    /// It may not be read (403), or the system refuses (500).
    pub fn look_up_index(&self, relative: &str, fields: &HeaderMap) -> Result<Option<Lookup>, Fault> {
        let name = relative.trim_matches('/');
        match self.find(name) {
            Ok(Found::Directory | Found::Other) | Err(Fault::Client(ClientFault::NotFound(_))) => Ok(None),
            Ok(found) => Ok(Some(self.select(name, found, fields))),
            Err(fault) => Err(fault),
        }
    }
}

/// Serves the file `name`, whatever path was asked for: as `content_type`, or by its name.
pub(crate) fn serve_named(
    files: Files<'_>,
    name: &str,
    content_type: Option<HeaderValue>,
    method: &Method,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    let found = files.find(name)?.into_stored();
    let (mut representation, stored) = found.ok_or_else(|| not_found(name))?;
    representation.content_type = content_type.unwrap_or(representation.content_type);
    representation.has_forms &= files.precompressed.is_some();
    respond_stored(name, representation, stored, method, fields)
}

impl Files<'_> {
    /// The cache, where these files are kept in one.
    pub(crate) fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.filter(|_| self.cache_use != CacheUse::Off)
    }

    /// What a name leads to, looked at anew or known from moments ago.
    pub(crate) fn find(&self, name: &str) -> Result<Found, Fault> {
        let known = match self.cache() {
            Some(cache) => cache.find(self.directory, name, self.cache_use),
            None => Known::Nothing,
        };
        if let Known::Fresh(cached) = known {
            return Ok(Found::Cached(cached));
        }
        let opened = self.directory.open_below(name).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, metadata))
        });
        match opened {
            Err(error) => Err(refused(name, error)),
            Ok((_, metadata)) if metadata.is_dir() => Ok(Found::Directory),
            Ok((_, metadata)) if !metadata.is_file() => Ok(Found::Other),
            Ok((file, metadata)) => match (known, self.cache()) {
                (Known::Stale(cached), Some(cache)) if cached.is_of(&metadata) => {
                    cache.mark_fresh(&cached);
                    Ok(Found::Cached(cached))
                }
                _ if self.has_records(&file, &metadata) => self.open_records(name, file, &metadata),
                (_, Some(cache)) if cache.takes(&metadata) => Ok(self.keep(cache, name, file, &metadata)),
                _ => Ok(Found::File(
                    self.describe(name, &metadata),
                    FileBody::new(Arc::new(file), metadata.len()),
                )),
            },
        }
    }

    /// Takes a file into the cache: a small one at once, a larger one behind the back of this request.
    fn keep(&self, cache: &Arc<Cache>, name: &str, file: File, metadata: &Metadata) -> Found {
        let representation = self.describe(name, metadata);
        if metadata.len() <= WHOLE_BYTES_MAX
            && let Some(content) = read_cached(&file, 0, metadata.len())
        {
            let content = cache.hold(content);
            let cached = Arc::new(Cached::new(representation, content, metadata));
            if file.metadata().is_ok_and(|now| cached.is_of(&now)) {
                cache.keep(self.directory, name, &cached);
            }
            return Found::Cached(cached);
        }
        let file = Arc::new(file);
        cache.fill(
            (self.directory, name),
            Arc::clone(&file),
            representation.clone(),
            metadata,
        );
        Found::File(representation, FileBody::new(file, metadata.len()))
    }
}

/// Why a file or directory is not opened.
pub(crate) fn refused(name: &str, error: io::Error) -> Fault {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => not_found(name),
        ErrorKind::PermissionDenied => {
            let failure = IoFailure::shared(Activity::File(name.into()), error);
            ClientFault::Forbidden(Forbidden::Unreadable(failure)).into()
        }
        // ENXIO: a socket, or a FIFO without a writer.
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => not_found(name),
        _ => ServerFault::io(Activity::File(name.into()), error).into(),
    }
}

pub(crate) fn not_found(name: &str) -> Fault {
    ClientFault::NotFound(Absent::File(name.into())).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use http::HeaderValue;

    use super::*;
    use sluice_settings::{CacheSettings, CompressionSettings, FileSettings};

    fn get(root: &Path, path: &str, fields: &HeaderMap) -> Result<Response<ResponseBody>, StatusCode> {
        fetch(None, root, path, fields)
    }

    fn fetch(
        cache: Option<&Arc<Cache>>,
        root: &Path,
        path: &str,
        fields: &HeaderMap,
    ) -> Result<Response<ResponseBody>, StatusCode> {
        let directory = Directory::open(root).unwrap();
        let files = Files {
            directory: &directory,
            cache,
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &Compression::new(&CompressionSettings::default()),
            precompressed: None,
        };
        let form = if path.ends_with('/') {
            PathForm::Directory
        } else {
            PathForm::Any
        };
        let looked_up = files.look_up(&path[1..], form, &Method::GET, fields);
        match looked_up.map_err(|fault| fault.status())? {
            Lookup::File(selected) => selected
                .respond(path, &Method::GET, fields)
                .map_err(|fault| fault.status()),
            Lookup::Directory => Err(StatusCode::FORBIDDEN),
            Lookup::Pending(_) | Lookup::Options => unreachable!("GET without compression"),
        }
    }

    #[test]
    fn a_file_has_no_slash_at_its_end() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("full")).unwrap();
        std::fs::write(root.path().join("full/index.html"), "hello").unwrap();
        let none = HeaderMap::new();
        let page = get(root.path(), "/full/index.html", &none).unwrap();
        assert_eq!(page.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(page.body().length(), Some(5));
        for (path, status) in [
            ("/full", StatusCode::FORBIDDEN),
            ("/full/", StatusCode::FORBIDDEN),
            ("/full/index.html/", StatusCode::NOT_FOUND),
            ("/none", StatusCode::NOT_FOUND),
        ] {
            assert_eq!(get(root.path(), path, &none).err(), Some(status), "{path}");
        }
    }

    #[test]
    fn validators_answer_304_and_the_tag_decides_over_the_date() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("f.txt"), "x").unwrap();
        let first = get(root.path(), "/f.txt", &HeaderMap::new()).unwrap();
        let with = |name: header::HeaderName, value: &HeaderValue| {
            let mut fields = HeaderMap::new();
            fields.insert(name, value.clone());
            fields
        };
        let tag = with(header::IF_NONE_MATCH, &first.headers()[header::ETAG]);
        let date = with(header::IF_MODIFIED_SINCE, &first.headers()[header::LAST_MODIFIED]);
        assert_eq!(
            get(root.path(), "/f.txt", &tag).unwrap().status(),
            StatusCode::NOT_MODIFIED
        );
        assert_eq!(
            get(root.path(), "/f.txt", &date).unwrap().status(),
            StatusCode::NOT_MODIFIED
        );
        let mut both = date;
        both.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(get(root.path(), "/f.txt", &both).unwrap().status(), StatusCode::OK);
    }

    #[test]
    fn parts_of_cached_content_stay_where_the_kernel_can_send_them_from() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("f"), "text".repeat(16 << 10)).unwrap();
        let file = File::options().append(true).open(root.path().join("f")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        let cache = Arc::new(Cache::new(&CacheSettings::default()));
        for (range, length) in [("bytes=0-9999", Some(10_000)), ("bytes=0-9999,20000-29999", None)] {
            let fields = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(range))]);
            let response = fetch(Some(&cache), root.path(), "/f", &fields).unwrap();
            assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
            assert!(response.body().sealed().is_some(), "{range}");
            assert!(length.is_none() || response.body().length() == length);
        }
    }
}
