//! Files: correct and plain.
//!
//! Here: types, validators, 304, index pages, the slash of a folder. Reading is plain too: small files whole, large ones
//! in pieces. Not here: what may be opened at all (`folder`).

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use rustix::buffer::spare_capacity;

use crate::fault::Fault;
use crate::handler::folder::Folder;
use crate::handler::redirect;
use crate::target::Target;
use crate::write::body::{ResponseBody, Source};

/// Files up to this many bytes are read in one go, so that head and body leave in one write.
const WHOLE_BYTES_MAX: u64 = 64 << 10;

/// Bytes of a piece of a larger file: enough to make the system calls cheap, little enough to leave the worker to others.
const PIECE_BYTES: u64 = 256 << 10;

const METHODS: &[Method] = &[Method::GET, Method::HEAD];

/// Serves what `relative` names below `folder`; `target` is the whole path, for redirects.
pub(crate) fn serve(
    folder: &Folder,
    relative: &str,
    index: &[&str],
    method: &Method,
    fields: &HeaderMap,
    target: &Target,
) -> Result<Response<ResponseBody>, Fault> {
    if !METHODS.contains(method) {
        return Err(Fault::method(method, METHODS));
    }
    let wants_folder = target.path.ends_with('/');
    let name = relative.trim_matches('/');
    let (file, metadata) = open(folder, name)?;
    if metadata.is_file() && !wants_folder {
        return respond(Path::new(name), file, &metadata, method, fields);
    }
    if !metadata.is_dir() {
        return Err(not_found(name));
    }
    if !wants_folder {
        return redirect::to_folder(target);
    }
    for page in index {
        let name = if name.is_empty() {
            (*page).to_owned()
        } else {
            format!("{name}/{page}")
        };
        match open(folder, &name) {
            Ok((file, metadata)) if metadata.is_file() => {
                return respond(Path::new(&name), file, &metadata, method, fields);
            }
            Ok(_) => {}
            Err(fault) if fault.status == StatusCode::NOT_FOUND => {}
            Err(fault) => return Err(fault),
        }
    }
    Err(Fault::client(
        StatusCode::FORBIDDEN,
        format!("folder {name:?} has no index page"),
    ))
}

fn open(folder: &Folder, name: &str) -> Result<(File, Metadata), Fault> {
    folder
        .open_below(name)
        .and_then(|file| file.metadata().map(|metadata| (file, metadata)))
        .map_err(|error| refused(name, &error))
}

fn refused(name: &str, error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => not_found(name),
        ErrorKind::PermissionDenied => Fault::client(StatusCode::FORBIDDEN, format!("file {name:?}: {error}")),
        // ENXIO: a socket, or a FIFO without a writer.
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => not_found(name),
        _ => Fault::server(format!("file {name:?}: {error}")),
    }
}

fn not_found(name: &str) -> Fault {
    Fault::client(StatusCode::NOT_FOUND, format!("file {name:?}: not there"))
}

fn respond(
    name: &Path,
    file: File,
    metadata: &Metadata,
    method: &Method,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    let validators = Validators::of(metadata);
    let mut response = Response::new(ResponseBody::Empty);
    let head = response.headers_mut();
    head.insert(header::ETAG, validators.etag.clone());
    head.insert(header::LAST_MODIFIED, validators.last_modified.clone());
    if validators.are_current(fields) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    head.insert(header::CONTENT_TYPE, content_type(name));
    let body = FileBody::new(file, metadata.len());
    *response.body_mut() = if *method != Method::HEAD && metadata.len() <= WHOLE_BYTES_MAX {
        body.whole()
            .map(ResponseBody::Whole)
            .map_err(|error| Fault::server(format!("file {}: {error}", name.display())))?
    } else {
        ResponseBody::Source(Box::new(body))
    };
    Ok(response)
}

/// ETag and Last-Modified of a file (RFC 9110 §8.8).
struct Validators {
    etag: HeaderValue,
    last_modified: HeaderValue,
    modified: SystemTime,
}

impl Validators {
    fn of(metadata: &Metadata) -> Validators {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        // Strong: size, and age by the nanosecond, change with the content (RFC 9110 §8.8.1).
        let etag = format!(
            "\"{:x}-{:x}{:08x}\"",
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec()
        );
        let value = |text: String| HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Validators {
            etag: value(etag),
            last_modified: value(httpdate::fmt_http_date(modified.max(SystemTime::UNIX_EPOCH))),
            modified,
        }
    }

    /// The client holds this version (RFC 9110 §13.2.2: If-None-Match decides alone where it is present).
    fn are_current(&self, fields: &HeaderMap) -> bool {
        let mut none_match = fields.get_all(header::IF_NONE_MATCH).iter().peekable();
        if none_match.peek().is_some() {
            return none_match
                .filter_map(|value| value.to_str().ok())
                .flat_map(|list| list.split(','))
                .map(|tag| tag.trim().trim_start_matches("W/"))
                .any(|tag| tag == "*" || tag.as_bytes() == self.etag.as_bytes());
        }
        let since = fields
            .get(header::IF_MODIFIED_SINCE)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| httpdate::parse_http_date(text).ok());
        // HTTP dates have whole seconds.
        since.is_some_and(|since| whole_seconds(self.modified) <= whole_seconds(since))
    }
}

fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |age| age.as_secs())
}

fn content_type(name: &Path) -> HeaderValue {
    let guess = mime_guess::from_path(name).first_raw();
    let Some(kind) = guess else {
        return HeaderValue::from_static("application/octet-stream");
    };
    let is_text = kind.starts_with("text/") || kind == "application/javascript" || kind == "application/json";
    if !is_text {
        return HeaderValue::from_static(kind);
    }
    HeaderValue::try_from(format!("{kind}; charset=utf-8")).unwrap_or_else(|_| HeaderValue::from_static("text/plain"))
}

/// A file on its way out: exactly the bytes that it had when its length was announced, or a cut.
struct FileBody {
    file: File,
    left: u64,
}

impl FileBody {
    fn new(file: File, left: u64) -> FileBody {
        FileBody { file, left }
    }

    /// All of it, for small files.
    fn whole(mut self) -> io::Result<Bytes> {
        let mut all = Vec::new();
        while self.left > 0 {
            let piece = self.read()?;
            if all.is_empty() && self.left == 0 {
                return Ok(piece.into());
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let wanted = self.left.min(PIECE_BYTES);
        // The spare capacity is all that is read into, so it is exactly what is wanted.
        let mut piece = Vec::with_capacity(usize::try_from(wanted).unwrap_or(usize::MAX));
        let read = rustix::io::read(&self.file, spare_capacity(&mut piece))?;
        if read == 0 {
            let text = format!("shrank while it was sent, {} bytes are missing", self.left);
            return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
        }
        // with_capacity may give more than was asked for: what the file has gained meanwhile is not sent.
        piece.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        self.left -= piece.len() as u64;
        Ok(piece)
    }
}

impl Source for FileBody {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = self.read().map(Bytes::from);
        Poll::Ready(Some(piece.map_err(|error| Fault::server(format!("file: {error}")))))
    }

    fn length(&self) -> Option<u64> {
        Some(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(root: &Path, path: &str, fields: &HeaderMap) -> Result<Response<ResponseBody>, StatusCode> {
        let folder = Folder::open(root).unwrap();
        let target = Target::parse(path).unwrap();
        let index = ["index.html"];
        serve(&folder, &target.path[1..], &index, &Method::GET, fields, &target).map_err(|fault| fault.status)
    }

    #[test]
    fn files_folders_and_index_pages() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("full")).unwrap();
        std::fs::create_dir_all(root.path().join("empty")).unwrap();
        std::fs::write(root.path().join("full/index.html"), "hello").unwrap();
        let none = HeaderMap::new();
        let page = get(root.path(), "/full/", &none).unwrap();
        assert_eq!(page.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(page.body().length(), Some(5));
        let slash = get(root.path(), "/full", &none).unwrap();
        assert_eq!(slash.status(), StatusCode::MOVED_PERMANENTLY);
        assert_eq!(get(root.path(), "/empty/", &none).err(), Some(StatusCode::FORBIDDEN));
        assert_eq!(
            get(root.path(), "/full/index.html/", &none).err(),
            Some(StatusCode::NOT_FOUND)
        );
        assert_eq!(get(root.path(), "/none", &none).err(), Some(StatusCode::NOT_FOUND));
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
    fn a_file_that_shrinks_is_a_fault_not_an_end() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        std::fs::write(&path, vec![0; 1_000_000]).unwrap();
        let mut body = FileBody::new(File::open(&path).unwrap(), 1_000_000);
        assert_eq!(body.read().unwrap().len(), 256 << 10);
        std::fs::write(&path, "").unwrap();
        assert_eq!(body.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
