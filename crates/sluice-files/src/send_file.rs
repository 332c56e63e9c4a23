//! Files that a script names in its reply: X-Sendfile, as in Apache's mod_xsendfile and lighttpd, and X-Accel-Redirect, as in nginx.
//!
//! The script decides that the client may have the file, and the server sends it, if the route of the script declares it (`send_files`).

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, DATE, ETAG, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use sluice_gateway::{ReplyHead, SEND_FILE_FIELDS, X_SENDFILE};
use sluice_http::body::ResponseBody;
use sluice_http::conditions::{self, Evaluation};
use sluice_http::fault::{ClientFault, Fault, ScriptFault, SentFile};
use sluice_http::head::may_have_body;
use sluice_http::path_text::{bytes_of, path_of, text_of};
use sluice_http::target::Target;
use sluice_settings::CacheUse;
use sluice_settings::compression::Compression;
use sluice_watch::Tracer;

use crate::cache::FileCache;
use crate::cache_work;
use crate::directory::Directory;
use crate::file_events::{self, response_text};
use crate::found::{Found, Stored, not_found};
use crate::lookup::Files;
use crate::response::respond_stored;
use crate::types::Types;

/// The characters that begin a query and a fragment; in X-Sendfile they are part of the name.
const NOT_IN_NAMES: &AsciiSet = &CONTROLS.add(b'?').add(b'#');

/// The directories of which the scripts of a route may send files.
#[derive(Default)]
pub struct SendDirectories(Vec<SendDirectory>);

struct SendDirectory {
    /// The prefix in X-Accel-Redirect: begins and ends with a slash.
    prefix: String,
    /// The path in the settings; `Directory::path` is without symbolic links. X-Sendfile may use both.
    path: PathBuf,
    directory: Directory,
}

/// The result of `SendFile::find`.
pub struct FoundFile(Result<Found, Fault>);

/// A file that a reply names, and the rest of the reply's head.
pub struct SendFile {
    directories: Arc<SendDirectories>,
    file: NamedFile,
    /// The field that names it, for messages: `x-sendfile: "/srv/a"`.
    field: String,
    status: StatusCode,
    fields: HeaderMap,
}

#[derive(Debug, PartialEq, Eq)]
struct NamedFile {
    directory: usize,
    name: String,
}

impl SendDirectories {
    /// Adds a directory: `prefix` is its path in X-Accel-Redirect, `path` that in the settings.
    pub fn add(&mut self, prefix: &str, path: &Path, directory: Directory) {
        self.0.push(SendDirectory {
            prefix: prefix.to_owned(),
            path: path.to_owned(),
            directory,
        });
    }

    /// The directories, to change which files of them are served.
    pub fn directories_mut(&mut self) -> impl Iterator<Item = &mut Directory> {
        self.0.iter_mut().map(|send| &mut send.directory)
    }

    /// Removes the field that names a file from a reply's head; `None` for a head without it. The field never reaches the client, because it may reveal a path.
    ///
    /// # Errors
    /// The script's fault: several files, a file outside the directories, or a status with which no file can be sent.
    pub fn take_sendfile_field(self: &Arc<Self>, head: &mut ReplyHead) -> Result<Option<SendFile>, Fault> {
        let mut named = Vec::new();
        for name in SEND_FILE_FIELDS {
            if !head.fields.contains_key(&name) {
                continue;
            }
            let values = head.fields.get_all(&name).iter();
            named.extend(values.map(|value| (name.clone(), text_of(Cow::Borrowed(value.as_bytes())).into_owned())));
            head.fields.remove(name);
        }
        let (name, value) = match <[_; 1]>::try_from(named) {
            Ok([only]) => only,
            Err(none) if none.is_empty() => return Ok(None),
            Err(_) => {
                let text = "its head names more than one file to send".to_owned();
                return Err(ScriptFault::BadSendFile(Arc::new(text)).into());
            }
        };
        let field = format!("{name}: {value:?}");
        let refuse = |problem: &str| Fault::from(ScriptFault::BadSendFile(Arc::new(format!("{field}: {problem}"))));
        if self.0.is_empty() {
            let problem = "the route lets no file be sent: declare its directory in send_files";
            return Err(refuse(problem));
        }
        // 206 is rejected too, because the server selects the ranges.
        if head.status == StatusCode::PARTIAL_CONTENT || !may_have_body(&Method::GET, head.status) {
            let status = head.status.as_u16();
            return Err(refuse(&format!("no file can be sent with status {status}")));
        }
        let file = match name == X_SENDFILE {
            true => self.by_path(&value),
            false => self.by_prefix(&value),
        };
        let file = file.map_err(refuse)?;
        Ok(Some(SendFile {
            directories: Arc::clone(self),
            file,
            field,
            status: head.status,
            fields: std::mem::take(&mut head.fields),
        }))
    }

    /// X-Sendfile: a file path. It is percent-decoded, as in Apache and lighttpd; `?` and `#` are part of the name.
    fn by_path(&self, value: &str) -> Result<NamedFile, &'static str> {
        if !value.starts_with('/') {
            return Err("must be an absolute path");
        }
        let raw = percent_encode(&bytes_of(value), NOT_IN_NAMES).to_string();
        let target = Target::parse_lenient(&raw);
        let path = target.map_err(|_| "is not a valid file path")?.path;
        let file = path_of(&path);
        let below = |send: &SendDirectory| {
            let inside = [&*send.path, send.directory.path()].map(|directory| file.strip_prefix(directory).ok());
            let name = inside.into_iter().flatten().next()?.as_os_str().as_bytes();
            let name = text_of(Cow::Borrowed(name)).into_owned();
            // A slash at the end is kept, so that the name is not found as a file; the directory itself has an empty name.
            let is_directory = path.ends_with('/') && !name.is_empty();
            Some(if is_directory { name + "/" } else { name })
        };
        self.innermost(below).ok_or("is outside the directories of send_files")
    }

    /// X-Accel-Redirect: a URL path, percent-decoded, in which each `%` must begin an escape.
    fn by_prefix(&self, value: &str) -> Result<NamedFile, &'static str> {
        let path = Target::parse(value).map_err(|_| "is not a valid URL path")?.path;
        let below = |send: &SendDirectory| path.strip_prefix(&send.prefix).map(str::to_owned);
        let found = self.innermost(below);
        found.ok_or("does not begin with a path of send_files")
    }

    /// The file below the innermost directory that contains it, which leaves the shortest name.
    fn innermost(&self, below: impl Fn(&SendDirectory) -> Option<String>) -> Option<NamedFile> {
        let files = self.0.iter().enumerate().filter_map(|(directory, send)| {
            let name = below(send)?;
            Some(NamedFile { directory, name })
        });
        files.min_by_key(|file| file.name.len())
    }
}

/// The settings of a site for files that its scripts name.
pub struct SendContext<'a> {
    /// The file cache, if there is one.
    pub cache: Option<&'a Arc<FileCache>>,
    /// Whether and for how long files are kept in it.
    pub cache_use: CacheUse,
    /// The media types by suffix.
    pub types: &'a Types,
    /// Which variants the site offers.
    pub compression: &'a Compression,
    /// The tracer of the exchange, for the events of the lookup.
    pub tracer: &'a Tracer,
}

impl SendFile {
    /// The name below its directory.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Opens the file as `serve` does, for a thread that notes the answers of its file system.
    pub fn lookup(&self) -> impl FnOnce() + Send + use<> {
        let (directories, number) = (Arc::clone(&self.directories), self.file.directory);
        let name = self.file.name.clone();
        move || drop(directories.0[number].directory.open_below(&name))
    }

    /// Looks the file up.
    #[must_use]
    pub fn find(&self, context: &SendContext<'_>) -> FoundFile {
        FoundFile(self.files(context).find(&self.file.name))
    }

    fn files<'a>(&'a self, context: &SendContext<'a>) -> Files<'a> {
        Files {
            directory: &self.directories.0[self.file.directory].directory,
            records: None,
            cache: context.cache,
            cache_use: context.cache_use,
            types: context.types,
            compression: context.compression,
            // No variants, because the script may state a content coding itself.
            precompressed: None,
            tracer: context.tracer,
        }
    }

    /// The response to a request with this method and these fields, of a file that `find` has found.
    ///
    /// # Errors
    /// The script's fault if the file does not exist or may not be read; the client's if its conditions or ranges fail.
    pub fn serve(
        self,
        context: &SendContext<'_>,
        found: FoundFile,
        method: &Method,
        fields: &HeaderMap,
    ) -> Result<Response<ResponseBody>, Fault> {
        let is_plain = self.status == StatusCode::OK;
        // Conditions and ranges apply only to a GET or HEAD that succeeds with 200 (RFC 9110 §13.2.1, §14.2).
        let no_fields = HeaderMap::new();
        let (method, fields) = match *method {
            Method::GET | Method::HEAD if is_plain => (method, fields),
            _ => (&Method::GET, &no_fields),
        };
        let files = self.files(context);
        let content_type = self.fields.get(CONTENT_TYPE).cloned();
        let served = serve_named(files, found, &self.file.name, content_type, method, fields);
        file_events::note(files.tracer, || format!("{}: {}", self.field, response_text(&served)));
        let mut response = served.map_err(|fault| blame_script(self.field, fault))?;
        if !is_plain {
            *response.status_mut() = self.status;
            for name in [ACCEPT_RANGES, ETAG, LAST_MODIFIED] {
                response.headers_mut().remove(name);
            }
        }
        join(&mut response, self.fields);
        Ok(response)
    }
}

/// Sends the file `name` with the media type `content_type`, or that of its name.
fn serve_named(
    files: Files<'_>,
    found: FoundFile,
    name: &str,
    content_type: Option<HeaderValue>,
    method: &Method,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    let found = found.0?.into_stored();
    let (mut representation, mut stored, fill) = found.ok_or_else(|| not_found(name))?;
    if let Some(fill) = fill
        && conditions::evaluate(fields, &representation.validators) == Evaluation::Perform
        && let Some(cached) = cache_work::read(fill, files.tracer)
    {
        stored = Stored::Memory(cached.content.clone());
    }
    representation.content_type = content_type.unwrap_or(representation.content_type);
    representation.has_variants &= files.precompressed.is_some();
    respond_stored(name, representation, stored, method, fields)
}

/// Adds the script's fields to those of the file, which take precedence, except that the values of Vary add up.
fn join(response: &mut Response<ResponseBody>, mut fields: HeaderMap) {
    // Fields about the bytes and the clock are the server's (RFC 9110 §6.6.1).
    for name in [ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, LAST_MODIFIED] {
        fields.remove(name);
    }
    if response.status() == StatusCode::NOT_MODIFIED {
        // The client has them already (RFC 9110 §15.4.5).
        for name in [CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE] {
            fields.remove(name);
        }
    }
    for name in response.headers().keys().filter(|name| **name != VARY) {
        fields.remove(name);
    }
    let mut name = None;
    for (next, value) in fields {
        // The iterator yields a name only with its first value.
        name = next.or(name);
        if let Some(name) = &name {
            response.headers_mut().append(name.clone(), value);
        }
    }
}

/// Makes it the script's fault that the file does not exist or may not be read, because the script named it.
fn blame_script(field: String, fault: Fault) -> Fault {
    match fault {
        Fault::Client(fault @ (ClientFault::NotFound(_) | ClientFault::Forbidden(_))) => {
            let field = field.into();
            ScriptFault::SentFile(Box::new(SentFile { field, fault })).into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::SET_COOKIE;
    use sluice_gateway::{HeadLimits, HeadParser, Reply};
    use sluice_http::fault::Culprit;

    use http::HeaderName;
    use sluice_gateway::X_ACCEL_REDIRECT;

    use super::*;

    fn head(text: &str) -> ReplyHead {
        let mut parser = HeadParser::new(HeadLimits { bytes_max: 1 << 16, fields_max: 100 });
        match parser.push(text.to_owned().into()).unwrap() {
            Some((Reply::Document(head), _)) => head,
            other => panic!("{other:?}"),
        }
    }

    fn directories(root: &Path) -> Arc<SendDirectories> {
        let mut directories = SendDirectories::default();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        for (prefix, path) in [("/files/", "link"), ("/files/deep/", "link/inner")] {
            let path = root.join(path);
            directories.add(prefix, &path, Directory::open(&path).unwrap());
        }
        Arc::new(directories)
    }

    #[test]
    fn files_are_named_by_path_or_prefix() {
        let root = tempfile::tempdir().unwrap();
        let directories = directories(root.path());
        let root = root.path().canonicalize().unwrap();
        let root = root.to_str().unwrap();
        let named = |line: String| {
            let send_file = directories
                .take_sendfile_field(&mut head(&format!("{line}\n\n")))
                .ok()??;
            Some((send_file.file.directory, send_file.file.name))
        };
        let some = |directory, name: &str| Some((directory, name.to_owned()));
        for (value, expected) in [
            ("/real/a b", some(0, "a b")),
            ("/link/a%20b", some(0, "a b")),
            ("/link/a?b#c", some(0, "a?b#c")),
            ("/link/100%", some(0, "100%")),
            ("/link//x/../a", some(0, "a")),
            ("/link/inner/a", some(1, "a")),
            ("/real/inner/b/", some(1, "b/")),
            ("/real", some(0, "")),
            ("/real/", some(0, "")),
            ("/reality", None),
            ("/link/../a", None),
            ("/link/a%00", None),
        ] {
            assert_eq!(named(format!("X-Sendfile: {root}{value}")), expected, "{value}");
        }
        for (value, expected) in [
            ("/files/a%20b?query", some(0, "a b")),
            ("/files/deep/a", some(1, "a")),
            ("/files/../x", None),
            ("/files/100%", None),
            ("/files", None),
            ("files/a", None),
            ("/other/a", None),
        ] {
            assert_eq!(named(format!("X-Accel-Redirect: {value}")), expected, "{value}");
        }
        assert_eq!(named("X-Sendfile: link/a".to_owned()), None);
    }

    #[test]
    fn fields_of_script_and_file_are_joined() {
        let mut response = Response::new(ResponseBody::Empty);
        let own = response.headers_mut();
        own.insert(ETAG, HeaderValue::from_static("\"file\""));
        own.insert(VARY, HeaderValue::from_static("accept-encoding"));
        let script = head("ETag: \"script\"\nVary: cookie\nSet-Cookie: a\nSet-Cookie: b\nDate: never\n\n");
        join(&mut response, script.fields);
        let values = |name: HeaderName| response.headers().get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(values(ETAG), ["\"file\""]);
        assert_eq!(values(VARY), ["accept-encoding", "cookie"]);
        assert_eq!(values(SET_COOKIE), ["a", "b"]);
        assert_eq!(response.headers().len(), 5);
    }

    #[test]
    fn field_without_a_declared_file_is_the_scripts_fault_and_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let directories = directories(root.path());
        for text in [
            "X-Sendfile: /etc/passwd\n\n",
            "X-Sendfile:\n\n",
            "X-Accel-Redirect: /files/a\nX-Sendfile: /a\n\n",
            "X-Accel-Redirect: /files/a\nX-Accel-Redirect: /files/b\n\n",
            "Status: 304\nX-Accel-Redirect: /files/a\n\n",
            "Status: 101\nX-Accel-Redirect: /files/a\n\n",
            "Status: 206\nX-Accel-Redirect: /files/a\n\n",
        ] {
            let mut head = head(text);
            let fault = directories.take_sendfile_field(&mut head).err().unwrap();
            assert_eq!(
                (fault.culprit(), fault.status().as_u16()),
                (Culprit::Script, 502),
                "{text}"
            );
            assert!(!head.fields.contains_key(X_SENDFILE) && !head.fields.contains_key(X_ACCEL_REDIRECT));
        }
        let none = Arc::new(SendDirectories::default());
        let fault = none
            .take_sendfile_field(&mut head("X-Accel-Redirect: /files/a\n\n"))
            .err()
            .unwrap();
        assert!(fault.to_string().contains("send_files"), "{fault}");
        assert!(
            none.take_sendfile_field(&mut head("Content-Type: text/plain\n\n"))
                .unwrap()
                .is_none()
        );
    }
}
