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
use sluice_http::fault::Fault;
use sluice_http::head;
use sluice_settings::compression::Compression;
use sluice_settings::{CacheUse, Precompressed};

use crate::body::{FileBody, read_cached};
use crate::cache::{Cache, Cached, Known};
use crate::directory::Directory;
use crate::records::RecordBody;
use crate::representation::Representation;
use crate::response::{Stored, respond_stored};
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
    /// The compressed forms in which they may be sent, if any. Routes differ in it that share what is kept of a file: nothing
    /// that is kept may hang on it.
    pub forms: Option<Precompressed>,
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

/// What comes of a request for a file.
pub enum Served {
    Response(Response<ResponseBody>),
    /// A response when its compressed form has been made.
    PendingVariant(Box<PendingVariant>),
    /// It is a directory.
    Directory,
}

/// Serves what `relative` names. A path that ends with a slash is a directory's, or nothing's.
pub fn serve(
    files: Files<'_>,
    relative: &str,
    is_directory: bool,
    method: &Method,
    fields: &HeaderMap,
) -> Result<Served, Fault> {
    if !METHODS.contains(method) {
        return Err(Fault::method(method, METHODS));
    }
    let name = relative.trim_matches('/');
    if *method == Method::OPTIONS {
        return serve_options(files, name, is_directory).map(Served::Response);
    }
    match files.find(name)? {
        Found::Directory => Ok(Served::Directory),
        _ if is_directory => Err(not_found(name)),
        found => files.answer(name, found, method, fields),
    }
}

/// Serves an index page, to GET and HEAD, if it is there.
pub fn serve_index(
    files: Files<'_>,
    relative: &str,
    method: &Method,
    fields: &HeaderMap,
) -> Result<Option<Served>, Fault> {
    let name = relative.trim_matches('/');
    match files.find(name) {
        Ok(Found::Directory | Found::Other) => Ok(None),
        Ok(found) => files.answer(name, found, method, fields).map(Some),
        Err(fault) if fault.status == StatusCode::NOT_FOUND => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// What may be done with a file or directory that is there; conditions and ranges mean nothing here (RFC 9110 §13.2.1, §14.2).
fn serve_options(files: Files<'_>, name: &str, is_directory: bool) -> Result<Response<ResponseBody>, Fault> {
    match files.find(name)? {
        Found::Directory => {}
        Found::Cached(_) | Found::File(..) | Found::Records(..) if !is_directory => {}
        _ => return Err(not_found(name)),
    }
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, head::allow(METHODS));
    Ok(response)
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
    representation.has_forms &= files.forms.is_some();
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
            Err(error) => Err(refused(name, &error)),
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
pub(crate) fn refused(name: &str, error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => not_found(name),
        ErrorKind::PermissionDenied => Fault::client(StatusCode::FORBIDDEN, format!("file {name:?}: {error}")),
        // ENXIO: a socket, or a FIFO without a writer.
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => not_found(name),
        _ => Fault::server(format!("file {name:?}: {error}")),
    }
}

pub(crate) fn not_found(name: &str) -> Fault {
    Fault::client(StatusCode::NOT_FOUND, format!("file {name:?}: not there"))
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
            forms: None,
        };
        let served = serve(files, &path[1..], path.ends_with('/'), &Method::GET, fields);
        match served.map_err(|fault| fault.status)? {
            Served::Response(response) => Ok(response),
            Served::PendingVariant(_) => unreachable!("without compression"),
            Served::Directory => Err(StatusCode::FORBIDDEN),
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
