//! Requests for files: from a path below a directory to the representation that the client gets.
//!
//! The name is looked up in the cache, or the file is opened. Nothing is read: what the cache has to do is noted in the result.

use std::fs::Metadata;
use std::sync::Arc;

use http::{HeaderMap, Method};
use sluice_http::encoding::Encoding;
use sluice_http::fault::{ClientFault, Fault};
use sluice_settings::compression::Compression;
use sluice_settings::{CacheUse, Precompressed};
use sluice_watch::Tracer;

use crate::body::FileBody;
use crate::cache::FileCache;
use crate::cache::entry::{Cached, Key};
use crate::cache::fill::Fill;
use crate::directory::Directory;
use crate::file_events;
use crate::foreign::{Question, answered, is_left};
use crate::found::{Found, OpenFile, Opened, not_found, open_fault};
use crate::records::Records;
use crate::records::stream_lf::has_original;
use crate::representation::Representation;
use crate::response::{METHODS, Selected};
use crate::types::Types;

/// The files of a directory, and how they are sent.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// The directory that contains the files.
    pub directory: &'a Directory,
    /// How the files are converted to lines, if they consist of records.
    pub records: Option<&'a Records>,
    /// The file cache, if there is one.
    pub cache: Option<&'a Arc<FileCache>>,
    /// Whether and for how long the files are kept in it.
    pub cache_use: CacheUse,
    /// The media types by the endings of names.
    pub types: &'a Types,
    /// The types and sizes that the site compresses.
    pub compression: &'a Compression,
    /// The variants that the route offers, if any. Routes that share cached files may differ in it, so nothing that is cached may depend on it.
    pub precompressed: Option<Precompressed>,
    /// The tracer of the exchange, for the events of the lookup.
    pub tracer: &'a Tracer,
}

/// How a path is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathForm {
    /// The path ends with a slash: it can only be a directory.
    Directory,
    /// Without.
    Any,
}

impl<'a> Files<'a> {
    /// Looks up a path and selects the client's representation; `None` for a directory. Opens the file unless it is fresh in the cache; reads none of it.
    ///
    /// # Errors
    /// The client's fault: it does not exist (404), may not be read (403), or the method is not one of files (405). The server's: the system refuses (500).
    pub fn look_up(
        &self,
        relative: &str,
        form: PathForm,
        method: &Method,
        fields: &HeaderMap,
    ) -> Result<Option<Selected>, Fault> {
        if !METHODS.contains(method) {
            return Err(ClientFault::method_not_allowed(method, METHODS).into());
        }
        let name = relative.trim_matches('/');
        match (self.find(name)?, form) {
            (Found::Directory, _) => Ok(None),
            (_, PathForm::Directory) | (Found::Other, _) => Err(not_found(name)),
            (found, _) => Ok(Some(self.select(name, found, fields))),
        }
    }

    /// Looks up an index page for GET or HEAD; `None` if there is no such file.
    ///
    /// # Errors
    /// It may not be read (403), or the system refuses (500).
    pub fn look_up_index(&self, relative: &str, fields: &HeaderMap) -> Result<Option<Selected>, Fault> {
        let name = relative.trim_matches('/');
        match self.find(name) {
            Ok(Found::Directory | Found::Other) | Err(Fault::Client(ClientFault::NotFound(_))) => Ok(None),
            Ok(found) => Ok(Some(self.select(name, found, fields))),
            Err(fault) => Err(fault),
        }
    }

    /// Whether a path leads to a file, whatever the method of the request.
    ///
    /// # Errors
    /// It may not be read (403), or the system refuses (500).
    pub fn has_file(&self, relative: &str, form: PathForm) -> Result<bool, Fault> {
        if form == PathForm::Directory {
            return Ok(false);
        }
        match self.find(relative.trim_matches('/')) {
            Ok(found) => Ok(!matches!(found, Found::Directory | Found::Other)),
            Err(Fault::Client(ClientFault::NotFound(_))) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// The file cache, if these files are kept in it.
    pub(crate) fn cache(&self) -> Option<&'a Arc<FileCache>> {
        self.cache.filter(|_| self.cache_use != CacheUse::Off)
    }

    /// Looks up a name. Opens the file unless it is fresh in the cache.
    ///
    /// # Errors
    /// The client's fault: it does not exist (404) or may not be read (403). The server's: the system refuses.
    pub(crate) fn find(&self, name: &str) -> Result<Found, Fault> {
        let cache = self.cache();
        let in_cache = match cache.map(|cache| cache.find(self.directory, name, self.cache_use)) {
            Some(Ok(cached)) => {
                file_events::note(self.tracer, || self.hit_text(name, &cached));
                return Ok(Found::Cached(cached));
            }
            Some(Err(stale)) => stale,
            None => None,
        };
        let (file, metadata) = self.directory.open_below(name).map_err(|error| {
            if is_left(&error) {
                return open_fault(name, error);
            }
            file_events::note(self.tracer, || {
                let path = self.directory.path().join(name);
                let why = self.directory.refusal(name, &error);
                format!("{}: not opened: {why}", path.display())
            });
            open_fault(name, error)
        })?;
        file_events::note(self.tracer, || self.opened_text(name, &metadata, in_cache.as_deref()));
        if metadata.is_dir() {
            return Ok(Found::Directory);
        }
        if !metadata.is_file() {
            return Ok(Found::Other);
        }
        if let (Some(cached), Some(cache)) = (in_cache, cache)
            && cached.is_current(&metadata)
        {
            cache.mark_fresh(&cached);
            return Ok(Found::Cached(cached));
        }
        let mut representation = Representation::of(self.types.of(name), &metadata);
        representation.has_variants =
            !Encoding::is_of_name(name) && self.compression.is_for(&representation.content_type);
        let opened = Opened {
            directory: self.directory,
            name,
            file,
            metadata,
            representation,
        };
        if let Some(records) = self.records
            && self.has_records(&opened)
        {
            return Ok(Found::Records(Box::new(records.open(opened, cache))));
        }
        let cache = cache.filter(|cache| cache.admits(&opened.metadata));
        if cache.is_none() {
            file_events::note(self.tracer, || self.uncached_text(&opened.metadata));
        }
        Ok(Found::File(Box::new(opened.into_file(cache))))
    }

    /// Whether an open file still consists of records, because it was not rewritten.
    fn has_records(&self, opened: &Opened<'_>) -> bool {
        let of = self.directory.id().number();
        let answer = || !has_original(&opened.file, &opened.metadata);
        answered(Question::Original, of, opened.name, bool::clone, answer)
    }

    fn hit_text(&self, name: &str, cached: &Cached) -> String {
        let path = self.directory.path().join(name);
        let age = self.cache.map(|cache| cache.age(cached)).unwrap_or_default();
        format!(
            "{}: from the cache, {} bytes; last compared with the file {} ms ago",
            path.display(),
            cached.content.len(),
            age.as_millis()
        )
    }

    fn opened_text(&self, name: &str, metadata: &Metadata, in_cache: Option<&Cached>) -> String {
        let path = self.directory.path().join(name);
        let what = match metadata {
            _ if metadata.is_dir() => "a directory".to_owned(),
            _ if metadata.is_file() => format!("a file of {} bytes", metadata.len()),
            _ => "neither a file nor a directory".to_owned(),
        };
        let in_cache = match in_cache {
            Some(cached) if cached.is_current(metadata) => "; in the cache, and unchanged",
            Some(_) => "; in the cache, and changed since",
            _ if metadata.is_file() && self.cache().is_some() => "; not in the cache",
            _ => "",
        };
        format!("{}: opened, {what}{in_cache}", path.display())
    }

    fn uncached_text(&self, metadata: &Metadata) -> String {
        let why = match self.cache() {
            None if self.cache.is_some() => "the route or site does not use the cache".to_owned(),
            None => "there is no cache".to_owned(),
            Some(cache) if metadata.len() > cache.file_bytes_max() => {
                format!("it has more than {} bytes", cache.file_bytes_max())
            }
            Some(_) => "it has just been changed, and the next change might not show in its date".to_owned(),
        };
        format!("not kept in the cache: {why}; read while it is sent")
    }
}

impl Opened<'_> {
    /// A file that is read while it is sent, and into the cache if there is one.
    fn into_file(self, cache: Option<&Arc<FileCache>>) -> OpenFile {
        let file = Arc::new(self.file);
        let key = || Key::new(self.directory, self.name);
        OpenFile {
            fill: cache.map(|cache| {
                let fill = Fill::new(cache, key(), &file, &self.representation, &self.metadata);
                Box::new(fill)
            }),
            body: FileBody::new(file, self.metadata.len()),
            representation: self.representation,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use http::{HeaderValue, Response, StatusCode, header};
    use sluice_http::body::ResponseBody;

    use super::*;
    use sluice_settings::{CacheSettings, CompressionSettings, FileSettings};
    use sluice_watch::{Hub, Line, Spec, TracedAttributes, WorkerHub};

    fn get(root: &Path, path: &str, fields: &HeaderMap) -> Result<Response<ResponseBody>, StatusCode> {
        fetch(None, root, path, fields)
    }

    fn fetch(
        cache: Option<&Arc<FileCache>>,
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
            tracer: &Tracer::NONE,
        };
        let form = if path.ends_with('/') {
            PathForm::Directory
        } else {
            PathForm::Any
        };
        let looked_up = files.look_up(&path[1..], form, &Method::GET, fields);
        let selected = looked_up
            .map_err(|fault| fault.status())?
            .ok_or(StatusCode::FORBIDDEN)?;
        respond(selected, path, fields).map_err(|fault| fault.status())
    }

    fn respond(selected: Selected, path: &str, fields: &HeaderMap) -> Result<Response<ResponseBody>, Fault> {
        let responded = selected.respond(path, &Method::GET, fields)?;
        Ok(responded.ok().expect("GET without compression"))
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
    fn watch_is_shown_what_is_opened_and_what_is_cached_and_why_not() {
        let root = tempfile::tempdir().unwrap();
        for name in ["old.txt", "new.txt", ".hidden", "a~"] {
            std::fs::write(root.path().join(name), "text").unwrap();
        }
        let file = std::fs::File::options()
            .append(true)
            .open(root.path().join("old.txt"))
            .unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        let hub = Hub::new();
        let watch = hub.watch(Spec::default()).unwrap();
        let tracer = WorkerHub::new(&hub).exchange(&Tracer::NONE, TracedAttributes::default);
        let directory = Directory::open(root.path()).unwrap();
        let cache = Arc::new(FileCache::new(&CacheSettings::default()));
        let files = Files {
            directory: &directory,
            records: None,
            cache: Some(&cache),
            cache_use: CacheUse::On,
            types: &Types::new(&FileSettings::default()),
            compression: &Compression::new(&CompressionSettings::default()),
            precompressed: None,
            tracer: &tracer,
        };
        for name in ["old.txt", "old.txt", "new.txt", ".hidden", "none", "cgi-bin/a"] {
            let selected = files.look_up(name, PathForm::Any, &Method::GET, &HeaderMap::new());
            if let Ok(Some(selected)) = selected {
                let _ = respond(selected, name, &HeaderMap::new());
            }
        }
        let taken = watch.take_until(std::time::Instant::now());
        let mut shown = String::new();
        for event in &taken.events {
            shown.push_str(&Line(event).to_string());
        }
        for text in [
            "old.txt: opened, a file of 4 bytes; not in the cache",
            "read, and kept in the cache",
            "old.txt: from the cache, 4 bytes",
            "the whole file, 4 bytes, entity tag \"",
            "not kept in the cache: it has just been changed",
            ".hidden: not opened: its name is hidden",
            "none: not opened: No such file",
            "a: not opened: it lies in a directory of scripts",
        ] {
            assert!(shown.contains(text), "{text} not in {shown}");
        }
    }

    #[test]
    fn ranges_of_cached_content_stay_in_sealed_memory() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("f"), "text".repeat(16 << 10)).unwrap();
        let file = File::options().append(true).open(root.path().join("f")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        let cache = Arc::new(FileCache::new(&CacheSettings::default()));
        for (range, length) in [("bytes=0-9999", Some(10_000)), ("bytes=0-9999,20000-29999", None)] {
            let fields = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(range))]);
            let response = fetch(Some(&cache), root.path(), "/f", &fields).unwrap();
            assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
            assert!(response.body().sealed().is_some(), "{range}");
            assert!(length.is_none() || response.body().length() == length);
        }
    }
}
