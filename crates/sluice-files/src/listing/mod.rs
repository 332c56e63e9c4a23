//! Directory listings, which are sent for directories without an index page.
//!
//! An entry is listed exactly if a request for it would be answered with that file or directory, or by running it as a script: each is opened as for a request,
//! and the site is asked what its path means. So a listing needs no second set of rules that could differ.
//!
//! ```text
//! respond (worker) ──▶ make (thread that may be lost) ──▶ read: names ──▶ entry ──▶ page: HTML or JSON
//! ```

pub mod page;

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, ErrorKind, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::{HeaderValue, Response, header};
use rustix::fs::{Dir, DirEntry, FileType};
use rustix::io::Errno;
use serde::Serialize;
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Fault, ServerFault};
use sluice_http::path_text::{shown, text_of};
use sluice_settings::template::Template;
use sluice_watch::Tracer;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::directory::Directory;
use crate::file_events;
use crate::foreign::{self, ANSWER_TIMEOUT, Share};
use crate::found::open_fault;
use page::{ListingRequest, Page};

/// Entries that are listed: a page with this number has about 3 MB. The page says if there are more.
const ENTRIES_MAX: usize = 10_000;

/// Names that are read from a directory, listed or not. At a few microseconds each, this bounds the time of a listing.
const NAMES_MAX: usize = 50_000;

/// Bytes of a README that are shown, with a link to the whole file.
const README_BYTES_MAX: usize = 64 << 10;

/// The names of a README, in order of precedence and in any case. README.html is listed but not shown: a complete HTML document cannot be inside another.
const README_NAMES: [&str; 3] = ["README.md", "README.txt", "README"];

/// Names that WATCH is shown as left out of a listing.
const NOTES_MAX: usize = 100;

/// Listings that are made at once, for all workers together, because each occupies a processor.
static PERMITS: Semaphore = Semaphore::const_new(4);

/// Longest wait for a permit. After it the response is 503.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The site to which a listed directory belongs.
pub trait ListingSite {
    /// The kind of answer that a request for `path` would get, if the entry is `below` in `directory`.
    fn entry_kind(&self, path: &str, directory: &Directory, below: &str) -> EntryKind;

    /// The media type of a file with this name.
    fn content_type(&self, name: &str) -> HeaderValue;

    /// The site's template for listings; `None` for the built-in page.
    fn template(&self) -> Option<&Template>;
}

/// The kind of answer that a request for the path of an entry would get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The entry itself.
    There,
    /// Running a script.
    Script,
    /// Another file, another answer, or an error.
    Elsewhere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub entry_type: EntryType,
    /// `None` for directories and scripts.
    pub bytes: Option<u64>,
    pub modified: Option<SystemTime>,
}

/// The type of an entry, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryType {
    Directory,
    File,
    Script,
}

/// The entries of a directory, unsorted.
pub(crate) struct Contents {
    pub entries: Vec<Entry>,
    pub is_truncated: bool,
    pub readme: Option<Readme>,
}

/// The first bytes of a README.
#[derive(Serialize)]
pub(crate) struct Readme {
    pub name: String,
    pub link: String,
    pub text: String,
    #[serde(rename = "is_cut")]
    pub is_truncated: bool,
}

/// Makes a listing in another thread, because a directory may be large and its disk slow: 10,000 entries take about 50 ms
/// even in memory, which would delay the other connections of a worker. The thread may be lost: any process that may read a directory can hold it. If
/// an entry lies in a file system that may not answer, the listing is made once more by a thread for that. `path` is that of the directory.
///
/// # Errors
/// The server's fault: too many listings are being made (503), or a file system does not answer (503), or the fault of `make`.
pub async fn respond(
    tracer: &Tracer,
    path: &str,
    make: impl Fn() -> Result<Page, Fault> + Send + Sync + 'static,
) -> Result<Response<ResponseBody>, Fault> {
    let Ok(Ok(permit)) = timeout(PERMIT_TIMEOUT, PERMITS.acquire()).await else {
        return Err(ServerFault::ListingsBusy(PERMIT_TIMEOUT).into());
    };
    // The thread holds the permit, because it goes on if the client disconnects; but not for ever.
    let permit = Arc::new(Mutex::new(Some(permit)));
    let (held, make) = (Arc::clone(&permit), Arc::new(make));
    let local = Arc::clone(&make);
    let made = foreign::begin(Share::local(path), move || {
        let made = catch_unwind(AssertUnwindSafe(|| foreign::locally(|| local())));
        release(&held);
        made
    });
    tokio::spawn(async move {
        sleep(ANSWER_TIMEOUT).await;
        release(&permit);
    });
    let panicked = |_| ServerFault::Listing(Arc::new(io::Error::other("its thread has panicked")));
    let page = match foreign::answer_to(path, made).await?.map_err(panicked)? {
        (page, None) => page?,
        (_, Some(share)) => foreign::elsewhere(share, path, move || make()).await??,
    };
    file_events::note(tracer, || page.notes.join("\n"));
    let mut response = Response::new(ResponseBody::Whole(bytes::Bytes::from(page.body).into()));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, page.format.content_type());
    fields.insert(header::VARY, HeaderValue::from_static("accept"));
    // There are no validators, because the mtime of a directory does not change when a file in it grows.
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn release(permit: &Mutex<Option<SemaphorePermit<'static>>>) {
    drop(permit.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Makes the listing of the directory `below` in `directory`. Waits for the disk.
///
/// # Errors
/// The client's fault: the directory does not exist or may not be read. The server's: it cannot be read, or the template fails.
pub fn make(
    directory: &Directory,
    below: &str,
    request: &ListingRequest,
    site: &dyn ListingSite,
) -> Result<Page, Fault> {
    let below = below.trim_matches('/');
    let reader = Reader {
        directory,
        below,
        path: &request.path,
        site,
        notes: RefCell::default(),
        is_watched: request.is_watched,
    };
    let contents = reader.read().map_err(|error| open_fault(below, error))?;
    let listed = contents.entries.len();
    let page = page::page(contents, request, site).map_err(|error| ServerFault::Listing(Arc::new(error)))?;
    let mut notes = reader.notes.take();
    if request.is_watched {
        let left_out = notes.len();
        notes.insert(
            0,
            format!("directory listing: {listed} entries, {left_out} names left out"),
        );
    }
    Ok(Page { notes, ..page })
}

struct Reader<'a> {
    directory: &'a Directory,
    /// The path of the listed directory below `directory`.
    below: &'a str,
    /// The URL path, decoded, with a slash at the end.
    path: &'a str,
    site: &'a dyn ListingSite,
    /// The names that are left out, and why, for WATCH.
    notes: RefCell<Vec<String>>,
    is_watched: bool,
}

impl Reader<'_> {
    fn leave_out(&self, name: &str, why: impl FnOnce() -> String) {
        let mut notes = self.notes.borrow_mut();
        if self.is_watched && notes.len() < NOTES_MAX {
            notes.push(format!("{name}: {}", why()));
        }
    }

    fn read(&self) -> io::Result<Contents> {
        let (mut entries, mut is_truncated) = (Vec::new(), false);
        for (count, name) in Dir::read_from(&*self.directory.open_below(self.below)?.0)?.enumerate() {
            let entry = self.entry(&name?)?;
            if count == NAMES_MAX || (entry.is_some() && entries.len() == ENTRIES_MAX) {
                is_truncated = true;
                break;
            }
            entries.extend(entry);
        }
        let readme = self.readme(&entries);
        Ok(Contents { entries, is_truncated, readme })
    }

    /// The entry of a name; `None` if it is not listed. An error if descriptors or memory are exhausted: the listing would look complete without the entry.
    fn entry(&self, read: &DirEntry) -> io::Result<Option<Entry>> {
        let text = text_of(Cow::Borrowed(read.file_name().to_bytes()));
        let name = &*text;
        // A name that contains a newline cannot be requested (`Target`).
        if name.contains('\n') || name == "." || name == ".." {
            return Ok(None);
        }
        // Other types are never served, and are not opened because that may have an effect on a device.
        let may_be_served = matches!(
            read.file_type(),
            FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown
        );
        if !may_be_served {
            self.leave_out(name, || "it is neither a file nor a directory".into());
            return Ok(None);
        }
        let (path, below) = (format!("{}{name}", self.path), self.below_of(name));
        let entry =
            |entry_type, bytes, modified| Ok(Some(Entry { name: name.to_owned(), entry_type, bytes, modified }));
        match self.site.entry_kind(&path, self.directory, &below) {
            EntryKind::Elsewhere => {
                self.leave_out(name, || {
                    "a request for it is answered by something else, or the client may not have it".into()
                });
                return Ok(None);
            }
            EntryKind::Script => return entry(EntryType::Script, None, None),
            EntryKind::There => {}
        }
        let opened = self.directory.open_below(&below).map(|(_, metadata)| metadata);
        let metadata = match opened {
            // Another process holds a lease on it.
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.directory.metadata_below(&below),
            opened => opened,
        };
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) if is_exhausted(&error) => return Err(error),
            Err(error) => {
                self.leave_out(name, || self.directory.refusal(&below, &error));
                return Ok(None);
            }
        };
        let modified = metadata.modified().ok();
        if metadata.is_file() {
            return entry(EntryType::File, Some(metadata.len()), modified);
        }
        let kind = || self.site.entry_kind(&format!("{path}/"), self.directory, &below);
        match metadata.is_dir() && kind() == EntryKind::There {
            true => entry(EntryType::Directory, None, modified),
            false => Ok(None),
        }
    }

    /// The first bytes of the directory's README, if one is listed and can be read.
    fn readme(&self, entries: &[Entry]) -> Option<Readme> {
        let named = |wanted: &str| {
            let mut files = entries.iter().filter(|entry| entry.entry_type == EntryType::File);
            files.find(|entry| entry.name.eq_ignore_ascii_case(wanted))
        };
        let entry = README_NAMES.into_iter().find_map(named)?;
        let mut bytes = Vec::new();
        let most = README_BYTES_MAX as u64 + 1;
        let (file, _) = self.directory.open_below(&self.below_of(&entry.name)).ok()?;
        (&*file).take(most).read_to_end(&mut bytes).ok()?;
        let is_truncated = bytes.len() > README_BYTES_MAX;
        bytes.truncate(README_BYTES_MAX);
        let text = String::from_utf8_lossy(&bytes);
        let is_unprintable = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
        Some(Readme {
            name: shown(&entry.name).into_owned(),
            link: page::link(&entry.name, EntryType::File),
            text: text.replace(is_unprintable, "\u{fffd}"),
            is_truncated,
        })
    }

    fn below_of(&self, name: &str) -> String {
        match self.below {
            "" => name.to_owned(),
            below => format!("{below}/{name}"),
        }
    }
}

/// Whether the process or the system has no descriptor or no memory left, so that the file may well be there.
fn is_exhausted(error: &io::Error) -> bool {
    let known = Errno::from_io_error(error);
    known.is_some_and(|errno| [Errno::MFILE, Errno::NFILE, Errno::NOMEM].contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[tokio::test(start_paused = true)]
    async fn request_without_a_permit_gets_503_and_retry_after() {
        let all = PERMITS.acquire_many(4).await.unwrap();
        let fault = respond(&Tracer::NONE, "/", || unreachable!("no permit"))
            .await
            .err()
            .unwrap();
        assert_eq!(fault.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(fault.retry_after(), Some(PERMIT_TIMEOUT.as_secs()));
        drop(all);
        tokio::time::resume();
        let fault = respond(&Tracer::NONE, "/", || Err(Fault::unexpected("made")))
            .await
            .err()
            .unwrap();
        assert_eq!(fault.to_string(), "made");
        let fault = respond(&Tracer::NONE, "/", || panic!("on purpose"))
            .await
            .err()
            .unwrap();
        assert_eq!(fault.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(PERMITS.available_permits(), 4, "every permit was released");
    }
}
