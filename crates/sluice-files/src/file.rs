//! Requests for files: from a path to the representation that the client gets, or to a directory.
//!
//! Not here: opening the file (`lookup`), selecting a variant (`variants`), the response (`response`), and index pages and
//! listings of a directory (sluice-server and `listing`).

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault};
use sluice_http::head;

use crate::found::{Found, not_found};
use crate::lookup::Files;
use crate::response::{Selected, respond_stored};
use crate::variants::on_demand::PendingVariant;

const METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::OPTIONS];

/// What a path below a directory stands for.
pub enum Lookup {
    /// A file, in the representation that the client gets.
    File(Selected),
    /// A file of which a variant is being compressed.
    Pending(Box<PendingVariant>),
    /// A file or directory that exists, for OPTIONS.
    Options,
    /// A directory.
    Directory,
}

/// How a path is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathForm {
    /// With a slash at the end: it can only be a directory.
    Directory,
    /// Without.
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
    /// Looks up a path, and selects the representation that the client gets. Opens the file unless it is fresh in the cache;
    /// makes no response.
    ///
    /// # Errors
    /// The client's fault: it does not exist (404), may not be read (403), or the method is not one of files (405). The
    /// server's: the system refuses (500).
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

    /// Looks up an index page for GET or HEAD; `None` if there is no such file.
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

/// Sends the file `name` with the media type `content_type`, or that of its name.
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
    representation.has_variants &= files.precompressed.is_some();
    respond_stored(name, representation, stored, method, fields)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use http::HeaderValue;

    use super::*;
    use crate::directory::Directory;
    use crate::file_cache::FileCache;
    use crate::types::Types;
    use sluice_settings::compression::Compression;
    use sluice_settings::{CacheSettings, CacheUse, CompressionSettings, FileSettings};

    fn get(root: &Path, path: &str, fields: &HeaderMap) -> Result<Response<ResponseBody>, StatusCode> {
        fetch(None, root, path, fields)
    }

    fn fetch(
        cache: Option<&FileCache>,
        root: &Path,
        path: &str,
        fields: &HeaderMap,
    ) -> Result<Response<ResponseBody>, StatusCode> {
        let directory = Directory::open(root).unwrap();
        let files = Files {
            directory: &directory,
            records: None,
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
    fn path_of_a_file_has_no_slash_at_the_end() {
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
    fn matching_validators_give_304_and_the_tag_takes_precedence() {
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
    fn ranges_of_cached_content_stay_in_sealed_memory() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("f"), "text".repeat(16 << 10)).unwrap();
        let file = File::options().append(true).open(root.path().join("f")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        let cache = FileCache::new(&CacheSettings::default());
        for (range, length) in [("bytes=0-9999", Some(10_000)), ("bytes=0-9999,20000-29999", None)] {
            let fields = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(range))]);
            let response = fetch(Some(&cache), root.path(), "/f", &fields).unwrap();
            assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
            assert!(response.body().sealed().is_some(), "{range}");
            assert!(length.is_none() || response.body().length() == length);
        }
    }
}
