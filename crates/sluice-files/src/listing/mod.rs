//! Listings of directories that have no index page.
//!
//! Here: what is in a directory. The rule is that an entry is listed exactly when asking for it would be answered with that
//! file or directory, or by running it as a script: each is opened just as it would be to be served, and the site is asked
//! what its path means. So whatever is not served is not listed either, without a second set of rules that could differ.
//! Not here: what a listing looks like (`page`).
//!
//! ```text
//! respond (worker) ──▶ make (a thread that may wait) ──▶ read: names ──▶ look: Entry ──▶ page: HTML or JSON
//! ```

pub mod page;

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, Response, header};
use rustix::fs::{Dir, DirEntry, FileType};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Fault, ServerFault};
use sluice_settings::template::Template;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::directory::Directory;
use crate::file;
use page::{ListingRequest, Page};

/// Entries listed: a page of so many is some 3 MB. That there are more is told.
const ENTRIES_MAX: usize = 10_000;

/// Names looked at in a directory, listed or not. At a few microseconds each this bounds the time that a listing takes.
const NAMES_MAX: usize = 50_000;

/// Bytes of a README that are shown; the rest is a click away.
const README_BYTES_MAX: usize = 64 << 10;

/// Names under which a README is looked for, in this order, in letters of any case. Not README.html: its text would
/// become part of a page that it was not written for, with its own styles, headings and scripts; it is in the list.
const README_NAMES: [&str; 3] = ["README.md", "README.txt", "README"];

/// Listings that are made at once, by all workers together: each keeps a thread busy, or waiting for a disk.
static TURNS: Semaphore = Semaphore::const_new(4);

/// Longest wait for a turn. Over it: 503.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// What a listing asks of the site around the directory.
pub trait ListingSite {
    /// What a request for `path` would meet.
    fn lead(&self, path: &str, directory: &Directory, below: &str) -> EntryKind;
    /// The type that a file of this name is sent with.
    fn content_type(&self, name: &str) -> HeaderValue;
    /// The site's own page.
    fn template(&self) -> Option<&Template>;
}

/// What a request for a path would meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// What lies in the directory under that name.
    There,
    /// A script, which is run.
    Script,
    /// Something else, or nothing.
    Elsewhere,
}

/// What is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub kind: Kind,
    /// None for what has no size that a client would see.
    pub bytes: Option<u64>,
    pub modified: Option<SystemTime>,
}

/// What an entry is to who asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
    Script,
}

/// A directory's entries, in no order.
pub(crate) struct Found {
    pub entries: Vec<Entry>,
    /// There are more.
    pub is_cut: bool,
    pub readme: Option<Readme>,
}

/// The beginning of a README.
pub(crate) struct Readme {
    pub name: String,
    pub text: String,
    /// There is more of it.
    pub is_cut: bool,
}

/// Has a listing made by a thread that may wait, for a directory can be large, and its disk slow or far away: 10,000
/// entries take some 50 ms when all is in memory, for which no worker can be spared.
///
/// The server's fault (503) when so many are being made already.
pub async fn respond(
    make: impl FnOnce() -> Result<Page, Fault> + Send + 'static,
) -> Result<Response<ResponseBody>, Fault> {
    let Ok(Ok(turn)) = timeout(TURN_TIMEOUT, TURNS.acquire()).await else {
        return Err(ServerFault::ListingsBusy(TURN_TIMEOUT).into());
    };
    // The turn belongs to the thread: a client that leaves does not end its work.
    let made = spawn_blocking(move || {
        let _turn = turn;
        make()
    });
    let page = made.await.map_err(|error| ServerFault::Listing(Arc::new(error)))??;
    let mut response = Response::new(ResponseBody::Whole(bytes::Bytes::from(page.body).into()));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, page.form.content_type());
    fields.insert(header::VARY, HeaderValue::from_static("accept"));
    // No validator tells whether a directory has changed: its time of change does not when a file in it grows.
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Makes the listing of `below` in `directory`. Waits for the disk.
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
    };
    let found = reader.read().map_err(|error| file::refused(below, error))?;
    page::page(found, request, site).map_err(|error| ServerFault::Listing(Arc::new(error)).into())
}

/// Reads one directory.
struct Reader<'a> {
    directory: &'a Directory,
    /// The directory to be listed, below `directory`.
    below: &'a str,
    /// Its path as clients name it, ending with a slash.
    path: &'a str,
    site: &'a dyn ListingSite,
}

impl Reader<'_> {
    fn read(&self) -> io::Result<Found> {
        let (mut entries, mut is_cut) = (Vec::new(), false);
        for (count, name) in Dir::new(self.directory.open_below(self.below)?)?.enumerate() {
            let entry = self.look(&name?);
            if count == NAMES_MAX || (entry.is_some() && entries.len() == ENTRIES_MAX) {
                is_cut = true;
                break;
            }
            entries.extend(entry);
        }
        let readme = self.readme(&entries);
        Ok(Found {
            entries,
            is_cut,
            readme,
        })
    }

    /// The entry of a name, if a request for it would be answered.
    fn look(&self, found: &DirEntry) -> Option<Entry> {
        // What is no UTF-8 or holds a newline cannot be asked for (`Target`).
        let name = found.file_name().to_str().ok().filter(|name| !name.contains('\n'))?;
        // The others are never served, and a device may feel that it is opened.
        let may_be_served = matches!(
            found.file_type(),
            FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown
        );
        if !may_be_served || name == "." || name == ".." {
            return None;
        }
        let (path, below) = (format!("{}{name}", self.path), self.below_of(name));
        let entry = |kind, bytes, modified| Entry {
            name: name.to_owned(),
            kind,
            bytes,
            modified,
        };
        match self.site.lead(&path, self.directory, &below) {
            EntryKind::Elsewhere => None,
            EntryKind::Script => Some(entry(Kind::Script, None, None)),
            EntryKind::There => {
                let about = self.open(&below).and_then(|file| file.metadata()).ok()?;
                let is_directory = about.is_dir();
                if is_directory && self.site.lead(&format!("{path}/"), self.directory, &below) != EntryKind::There {
                    return None;
                }
                let modified = about.modified().ok();
                match is_directory {
                    true => Some(entry(Kind::Directory, None, modified)),
                    false if about.is_file() => Some(entry(Kind::File, Some(about.len()), modified)),
                    false => None,
                }
            }
        }
    }

    /// The beginning of the directory's README, if one is listed and can be read.
    fn readme(&self, entries: &[Entry]) -> Option<Readme> {
        let named = |wanted: &str| {
            let is_it = |entry: &&Entry| entry.kind == Kind::File && entry.name.eq_ignore_ascii_case(wanted);
            entries.iter().find(is_it)
        };
        let entry = README_NAMES.into_iter().find_map(named)?;
        let mut bytes = Vec::new();
        let most = README_BYTES_MAX as u64 + 1;
        let file = self.open(&self.below_of(&entry.name)).ok()?;
        file.take(most).read_to_end(&mut bytes).ok()?;
        let is_cut = bytes.len() > README_BYTES_MAX;
        bytes.truncate(README_BYTES_MAX);
        let text = String::from_utf8_lossy(&bytes);
        let is_strange = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
        Some(Readme {
            name: entry.name.clone(),
            text: text.replace(is_strange, "\u{fffd}"),
            is_cut,
        })
    }

    fn open(&self, below: &str) -> io::Result<File> {
        self.directory.open_below(below)
    }

    fn below_of(&self, name: &str) -> String {
        match self.below {
            "" => name.to_owned(),
            below => format!("{below}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[tokio::test(start_paused = true)]
    async fn who_gets_no_turn_is_told_when_to_come_again() {
        let all = TURNS.acquire_many(4).await.unwrap();
        let fault = respond(|| unreachable!("no turn")).await.err().unwrap();
        assert_eq!(fault.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(fault.retry_after(), Some(TURN_TIMEOUT));
        drop(all);
        let fault = respond(|| Err(Fault::unexpected("made"))).await.err().unwrap();
        assert_eq!(fault.to_string(), "made");
        let fault = respond(|| panic!("a mistake")).await.err().unwrap();
        assert_eq!(fault.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(TURNS.available_permits(), 4, "every turn has been given back");
    }
}
