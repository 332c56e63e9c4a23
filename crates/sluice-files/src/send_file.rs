//! Files that a script hands over: X-Sendfile, as Apache's mod_xsendfile and lighttpd know it, and X-Accel-Redirect, as nginx does.
//!
//! A script decides who may have a file, and leaves the sending to the server. Here: which file a reply names, of those that the
//! script's route declares (`send_files`), and how the script's head and the file's become one. Not here: running the script
//! (`script`), what may be opened below a directory (`directory`), conditions and ranges (`file`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, DATE, ETAG, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sluice_gateway::{ReplyHead, SEND_FILE_FIELDS, X_SENDFILE};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault, ScriptFault, SentFile};
use sluice_http::head::may_have_body;
use sluice_http::target::Target;
use sluice_settings::CacheUse;
use sluice_settings::compression::Compression;

use crate::cache::Cache;
use crate::directory::Directory;
use crate::file;
use crate::file::Files;
use crate::types::Types;

/// What a query and a fragment begin with, where they are letters of a file's name.
const NOT_IN_NAMES: &AsciiSet = &CONTROLS.add(b'?').add(b'#');

/// The directories that the scripts of a route may hand files of.
#[derive(Default)]
pub struct SendDirectories(Vec<SendDirectory>);

struct SendDirectory {
    /// What X-Accel-Redirect calls it: begins and ends with a slash.
    prefix: String,
    /// As the settings name it, while `Directory::path` is without symbolic links; X-Sendfile may say either.
    path: PathBuf,
    directory: Directory,
}

/// A file that a script hands over, and the head that it gave to it.
pub struct SendFile {
    directories: Arc<SendDirectories>,
    place: Place,
    /// The field that names it, for messages.
    named: SendFileField,
    status: StatusCode,
    fields: HeaderMap,
}

/// A file of the directories: which of them, and the name below it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    number: usize,
    name: String,
}

/// The field that names a file, with its value.
#[derive(Clone, Debug)]
struct SendFileField {
    name: HeaderName,
    value: String,
}

impl fmt::Display for SendFileField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {:?}", self.name, self.value)
    }
}

/// A field that names no file that may be sent.
#[derive(Debug)]
struct BadSendFile {
    field: SendFileField,
    problem: Problem,
}

impl fmt::Display for BadSendFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.problem)
    }
}

/// What is wrong with such a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    NoDirectories,
    Status(StatusCode),
    NotAbsolute,
    NotAPath,
    NotAUrlPath,
    Outside,
    UnknownPrefix,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Problem::NoDirectories => "the route lets no file be sent: declare its directory in send_files",
            Problem::Status(status) => return write!(out, "no file can be sent with status {}", status.as_u16()),
            Problem::NotAbsolute => "must be an absolute path",
            Problem::NotAPath => "is no path of a file",
            Problem::NotAUrlPath => "is no path of URLs",
            Problem::Outside => "is outside of the directories of send_files",
            Problem::UnknownPrefix => "begins with none of the paths of send_files",
        })
    }
}

/// A head with several fields that name a file, or one twice.
#[derive(Debug)]
struct SeveralFiles;

impl fmt::Display for SeveralFiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("its head names more than one file to send")
    }
}

impl SendDirectories {
    pub fn add(&mut self, prefix: &str, path: &Path, directory: Directory) {
        self.0.push(SendDirectory {
            prefix: prefix.to_owned(),
            path: path.to_owned(),
            directory,
        });
    }

    pub fn directories_mut(&mut self) -> impl Iterator<Item = &mut Directory> {
        self.0.iter_mut().map(|send| &mut send.directory)
    }

    /// Takes the file out of a reply's head, if it names one. What it names outside of the directories is the script's fault:
    /// the path is none that a client may learn, so it is not passed on either.
    pub fn take_sendfile_field(self: &Arc<Self>, head: &mut ReplyHead) -> Result<Option<SendFile>, Fault> {
        let mut named = Vec::new();
        // Most replies name none, and look no further.
        for name in SEND_FILE_FIELDS {
            if !head.fields.contains_key(&name) {
                continue;
            }
            let values = head.fields.get_all(&name).iter();
            named.extend(values.map(|value| (name.clone(), String::from_utf8_lossy(value.as_bytes()).into_owned())));
            head.fields.remove(name);
        }
        let (name, value) = match <[_; 1]>::try_from(named) {
            Ok([only]) => only,
            Err(none) if none.is_empty() => return Ok(None),
            Err(_) => return Err(ScriptFault::BadSendFile(Arc::new(SeveralFiles)).into()),
        };
        let named = SendFileField { name, value };
        let refuse = |problem| {
            let field = named.clone();
            Fault::from(ScriptFault::BadSendFile(Arc::new(BadSendFile { field, problem })))
        };
        if self.0.is_empty() {
            return Err(refuse(Problem::NoDirectories));
        }
        // Which parts are sent is for the server to choose.
        if head.status == StatusCode::PARTIAL_CONTENT || !may_have_body(&Method::GET, head.status) {
            return Err(refuse(Problem::Status(head.status)));
        }
        let place = if named.name == X_SENDFILE {
            self.by_path(&named.value)
        } else {
            self.by_prefix(&named.value)
        };
        let place = place.map_err(refuse)?;
        Ok(Some(SendFile {
            directories: Arc::clone(self),
            place,
            named,
            status: head.status,
            fields: std::mem::take(&mut head.fields),
        }))
    }

    /// X-Sendfile. Its value is percent-decoded, as Apache and lighttpd do it; it is no URL, so `?` and `#` are of the name.
    fn by_path(&self, value: &str) -> Result<Place, Problem> {
        if !value.starts_with('/') {
            return Err(Problem::NotAbsolute);
        }
        let raw = utf8_percent_encode(value, NOT_IN_NAMES).to_string();
        let path = Target::parse(&raw).map_err(|_| Problem::NotAPath)?.path;
        let below = |send: &SendDirectory| {
            let inside =
                [&*send.path, send.directory.path()].map(|directory| Path::new(&path).strip_prefix(directory).ok());
            let name = inside.into_iter().flatten().next()?.to_str()?.to_owned();
            // What ends with a slash is no file; the directory itself has no name.
            let is_directory = path.ends_with('/') && !name.is_empty();
            Some(if is_directory { name + "/" } else { name })
        };
        self.innermost(below).ok_or(Problem::Outside)
    }

    /// X-Accel-Redirect: a path of URLs, percent-decoded.
    fn by_prefix(&self, value: &str) -> Result<Place, Problem> {
        let path = Target::parse(value).map_err(|_| Problem::NotAUrlPath)?.path;
        let below = |send: &SendDirectory| path.strip_prefix(&send.prefix).map(str::to_owned);
        self.innermost(below).ok_or(Problem::UnknownPrefix)
    }

    /// Of the directories that hold the file, the one that leaves the shortest name.
    fn innermost(&self, below: impl Fn(&SendDirectory) -> Option<String>) -> Option<Place> {
        let places = self.0.iter().enumerate().filter_map(|(number, send)| {
            let name = below(send)?;
            Some(Place { number, name })
        });
        places.min_by_key(|place| place.name.len())
    }
}

/// What a site says of the files that its scripts name.
pub struct SendContext<'a> {
    /// The file cache, if there is one.
    pub cache: Option<&'a Arc<Cache>>,
    /// How files are kept in it.
    pub cache_use: CacheUse,
    /// The media types by suffix.
    pub types: &'a Types,
    /// Which variants the site offers.
    pub compression: &'a Compression,
}

impl SendFile {
    /// Sends it, to a request with these fields. The faults of the file are the script's, except what the client's own
    /// conditions and ranges make of it.
    pub fn serve(
        self,
        context: &SendContext<'_>,
        method: &Method,
        fields: &HeaderMap,
    ) -> Result<Response<ResponseBody>, Fault> {
        let is_plain = self.status == StatusCode::OK;
        // Conditions and ranges ask about what GET gives with 200 (RFC 9110 §13.2.1, §14.2).
        let no_fields = HeaderMap::new();
        let (method, fields) = match *method {
            Method::GET | Method::HEAD if is_plain => (method, fields),
            _ => (&Method::GET, &no_fields),
        };
        let files = Files {
            directory: &self.directories.0[self.place.number].directory,
            cache: context.cache,
            cache_use: context.cache_use,
            types: context.types,
            compression: context.compression,
            // As it is stored: whether it is of some coding already is for the script to say.
            precompressed: None,
        };
        let content_type = self.fields.get(CONTENT_TYPE).cloned();
        let served = file::serve_named(files, &self.place.name, content_type, method, fields);
        let mut response = served.map_err(|fault| blame_script(&self.named, fault))?;
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

/// The script's fields join those of the file, which decide where both have one; what a response varies by adds up.
fn join(response: &mut Response<ResponseBody>, mut fields: HeaderMap) {
    // What is said of the bytes is for the server to say; of the clock likewise (RFC 9110 §6.6.1).
    for name in [ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, LAST_MODIFIED] {
        fields.remove(name);
    }
    if response.status() == StatusCode::NOT_MODIFIED {
        // The client has them, with the file (RFC 9110 §15.4.5).
        for name in [CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE] {
            fields.remove(name);
        }
    }
    for name in response.headers().keys().filter(|name| **name != VARY) {
        fields.remove(name);
    }
    let mut name = None;
    for (next, value) in fields {
        // A name stands with its first value alone.
        name = next.or(name);
        if let Some(name) = &name {
            response.headers_mut().append(name.clone(), value);
        }
    }
}

/// A file that is not there or may not be read is what the script named, not what the client asked for.
fn blame_script(field: &SendFileField, fault: Fault) -> Fault {
    match fault {
        Fault::Client(fault @ (ClientFault::NotFound(_) | ClientFault::Forbidden(_))) => {
            let field = field.to_string().into();
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
        let mut parser = HeadParser::new(HeadLimits {
            bytes_max: 1 << 16,
            fields_max: 100,
        });
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
    fn files_are_named_by_path_or_by_prefix() {
        let root = tempfile::tempdir().unwrap();
        let directories = directories(root.path());
        let root = root.path().canonicalize().unwrap();
        let root = root.to_str().unwrap();
        let place = |line: String| {
            let handed = directories
                .take_sendfile_field(&mut head(&format!("{line}\n\n")))
                .ok()??;
            Some((handed.place.number, handed.place.name))
        };
        let some = |number, name: &str| Some((number, name.to_owned()));
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
            assert_eq!(place(format!("X-Sendfile: {root}{value}")), expected, "{value}");
        }
        for (value, expected) in [
            ("/files/a%20b?query", some(0, "a b")),
            ("/files/deep/a", some(1, "a")),
            ("/files/../x", None),
            ("/files", None),
            ("files/a", None),
            ("/other/a", None),
        ] {
            assert_eq!(place(format!("X-Accel-Redirect: {value}")), expected, "{value}");
        }
        assert_eq!(place("X-Sendfile: link/a".to_owned()), None);
    }

    #[test]
    fn fields_of_script_and_file_are_one_head() {
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
    fn a_field_that_names_no_declared_file_is_the_scripts_fault_and_goes_no_further() {
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
