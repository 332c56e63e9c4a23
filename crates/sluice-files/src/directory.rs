//! A directory that files are served from, held open. Nothing outside it is ever reached.
//!
//! The kernel enforces this: every open is an openat2(2) with RESOLVE_BENEATH, which rejects `..` and symbolic links that leave the
//! directory, at every step and without a race. What a rejected link leads to is opened only if `follow_links` allows it (`links`). Rules that the kernel does not know are enforced here,
//! also for symbolic links from elsewhere in the directory. These do not exist for clients: hidden names (a leading dot, except
//! `.well-known`, RFC 8615), directories of scripts, files whose names are withheld (`*~`), and the server's own files.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{OFlags, ResolveFlags};
use rustix::io::Errno;
use sluice_http::fault::RefusedLink;
use sluice_http::path_text::{path_of, text_of_path};
use sluice_launch::deadline;
use sluice_settings::FollowLinks;
use sluice_settings::permission::Use;
use sluice_settings::rule::Wildcard;

use crate::foreign::served_file::ServedFile;
use crate::foreign::{Question, answered, has_left, leaves, leaves_path, left};
use crate::links;
use crate::missing_directory::Missing;
use crate::open_directory::OpenDirectory;
pub use crate::open_directory::real_or_future_path;
use crate::withheld::{COMPRESSED, WithheldFiles};

/// Names of directories that hold scripts by convention: no file in them is sent, although no route may run it yet.
const SCRIPT_DIRECTORIES: [&str; 2] = ["cgi-bin", "cgiplus-bin"];

/// The identity of an open directory. The same path opened again has another id, because its rules may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectoryId(u64);

impl DirectoryId {
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// An open directory, or one that will be opened when it exists.
pub struct Directory {
    id: DirectoryId,
    configured: PathBuf,
    place: OnceLock<OpenDirectory>,
    withheld: Arc<WithheldFiles>,
    /// Patterns, in lower case, of names of files that are never served; directories may have such names.
    pub withheld_names: Arc<[Wildcard]>,
    /// Tests for paths that are scripts, whose text is never served, also if another name leads to them.
    pub programs: Vec<Program>,
    /// Whether files with an execute bit are scripts, because a route runs them: their text is never served.
    pub withholds_executables: bool,
    /// Whether directories without an index page are listed.
    pub is_listed: bool,
    /// Which links that leave the directory are followed.
    pub follow: FollowLinks,
    /// The same as `private` of an open directory, for real paths outside: they matter only if links are followed.
    sources_outside: Vec<PathBuf>,
    /// The same as `programs`, by paths of the whole machine, to which links may lead.
    pub programs_outside: Vec<Program>,
}

/// The target of a path with symbolic links.
enum LinkTarget {
    Inside(PathBuf),
    Outside(PathBuf),
}

/// A program below the directory.
pub struct ProgramFile {
    /// The path, without symbolic links below the directory.
    pub path: PathBuf,
    /// The metadata of fstat(2).
    pub metadata: Metadata,
}

/// A test whether a path, with a leading slash, is that of a script. The text is that of `text_of_path`.
pub type Program = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Directory {
    /// Opens a directory.
    ///
    /// # Errors
    /// It does not exist or may not be read; the administrator's fault.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let directory = Directory::new(path);
        let _ = directory.place.set(OpenDirectory::open(path)?);
        Ok(directory)
    }

    /// Opens a directory, now if it exists, may be entered and its file system answers, or else with the first request for which it is so.
    ///
    /// # Errors
    /// It cannot be opened for another reason; the administrator's fault.
    pub fn open_or_await(path: &Path) -> io::Result<Directory> {
        // The reader of a configuration has said so then.
        let is_reported = deadline::silent_paths().iter().any(|silent| silent == path);
        match Directory::open(path) {
            Err(error) if deadline::is_unanswered(&error) => {
                if !is_reported {
                    let shown = path.display();
                    tracing::warn!("directory {shown}: {error}; until that changes the answer is 503");
                }
                Ok(Directory::new(path))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Directory::new(path)),
            Err(error) => match Missing::of(path, error) {
                error if error.kind() == io::ErrorKind::NotFound => Ok(Directory::new(path)),
                error => Err(error),
            },
            opened => opened,
        }
    }

    fn new(path: &Path) -> Directory {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        Directory {
            // Relaxed: the numbers only have to be different.
            id: DirectoryId(OPENED.fetch_add(1, Ordering::Relaxed)),
            configured: real_or_future_path(path),
            place: OnceLock::new(),
            withheld: Arc::default(),
            withheld_names: Arc::default(),
            programs: Vec::new(),
            withholds_executables: false,
            is_listed: false,
            follow: FollowLinks::No,
            sources_outside: Vec::new(),
            programs_outside: Vec::new(),
        }
    }

    /// The open directory; opens it if it has come to exist.
    fn place(&self) -> io::Result<&OpenDirectory> {
        if let Some(place) = self.place.get() {
            return Ok(place);
        }
        if leaves_path(&self.configured) {
            return Err(left());
        }
        let mut place = OpenDirectory::open(&self.configured).map_err(|error| Missing::of(&self.configured, error))?;
        self.sources_outside.iter().for_each(|other| place.withhold(other));
        place.withheld_below = self.withheld.below(&place.path);
        tracing::info!("{} exists now, and is served", place.path.display());
        // Another thread may have been faster.
        Ok(self.place.get_or_init(|| place))
    }

    /// The identity of the directory in the cache.
    pub fn id(&self) -> DirectoryId {
        self.id
    }

    /// The path, without symbolic links; that of the configuration while the directory does not exist.
    pub fn path(&self) -> &Path {
        self.place.get().map_or(&self.configured, |place| &place.path)
    }

    /// Whether it has a name of directories of scripts itself, so that none of its files is sent.
    pub fn is_of_scripts(&self) -> bool {
        self.path().file_name().is_some_and(is_script_directory)
    }

    /// Makes the directory `other` private if it lies inside this one, or is made later as a link to a directory inside this one.
    pub fn withhold(&mut self, other: &Path) {
        self.sources_outside.push(other.to_owned());
        if let Some(place) = self.place.get_mut() {
            place.withhold(other);
        }
    }

    /// Does not serve these files, whatever path leads to them.
    pub fn withhold_files(&mut self, files: &Arc<WithheldFiles>) {
        if let Some(place) = self.place.get_mut() {
            place.withheld_below = files.below(&place.path);
        }
        self.withheld = Arc::clone(files);
    }

    /// Opens a file or directory for reading, by its path below this directory without a leading slash; an empty path is the directory itself.
    ///
    /// # Errors
    /// `NotFound` also for files that may not be served; otherwise the error of the system.
    pub fn open_below(&self, relative: &str) -> io::Result<(ServedFile, Metadata)> {
        answered(Question::Open, self.id.0, relative, again, || {
            self.open_as(relative, READ).map_err(or_left)
        })
    }

    /// The metadata of a file that `open_below` would open, if another process did not hold a lease on it; with the same errors.
    pub(crate) fn metadata_below(&self, relative: &str) -> io::Result<Metadata> {
        let open = || self.open_as(relative, OFlags::PATH).map_err(or_left);
        Ok(answered(Question::Metadata, self.id.0, relative, again, open)?.1)
    }

    fn open_as(&self, relative: &str, access: OFlags) -> io::Result<(ServedFile, Metadata)> {
        let path = &*path_of(relative);
        let place = self.place()?;
        if place.is_foreign && leaves(|| place.share(path)) {
            return Err(left());
        }
        // The path of a script leads here if the conditions of its route do not hold: its text is not served then either.
        if !self.may_serve(place, path) || self.is_program(path) {
            return Err(withheld());
        }
        let name = if relative.is_empty() { "." } else { relative };
        // Without symbolic links, as in most paths, the checked name is the real one.
        let mut file = match place.open_within(name, access, ResolveFlags::NO_SYMLINKS) {
            Err(Errno::LOOP) => self.open_through_links(place, name, access)?,
            Err(error @ (Errno::XDEV | Errno::ACCESS)) => place.open_across(path, name, access, Use::Read, error)?,
            other => place.served(other?),
        };
        let metadata = file.metadata()?;
        let is_executable = || self.withholds_executables && metadata.mode() & 0o111 != 0;
        if !metadata.is_dir() && (self.is_withheld_name(path) || self.withheld.has(&metadata) || is_executable()) {
            return Err(withheld());
        }
        if !access.contains(OFlags::PATH) {
            file.read_ahead(&metadata);
        }
        Ok((file, metadata))
    }

    /// Finds a program below this directory, by its path without a leading slash. Symbolic links that lead out of the directory
    /// are followed as for files, hidden and withheld names are not. The result has no symbolic links in its path, so that the program that is executed
    /// is the one that was found, unless somebody who may write to the directory replaces it.
    ///
    /// # Errors
    /// `NotFound` also for programs that may not be run; otherwise the error of the system.
    pub fn find_program(&self, relative: &str) -> io::Result<ProgramFile> {
        let path = path_of(relative);
        if is_hidden(&path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let directory = self.place()?;
        if directory.is_foreign && leaves(|| directory.share(&path)) {
            return Err(left());
        }
        let inside = || LinkTarget::Inside(path.clone().into_owned());
        let (file, place) = match directory.open_within(relative, OFlags::PATH, ResolveFlags::NO_SYMLINKS) {
            Err(Errno::LOOP) => links::open_unreplaced(|| self.open_beneath(directory, relative, OFlags::PATH))?,
            Err(error @ (Errno::XDEV | Errno::ACCESS)) => {
                let across = directory.open_across(&path, relative, OFlags::PATH, Use::Execute, error);
                (across?, inside())
            }
            other => (directory.served(other?), inside()),
        };
        let (is_hidden, real) = match &place {
            LinkTarget::Inside(inside) => (is_hidden(inside), inside),
            LinkTarget::Outside(real) => (is_hidden_outside(real, &directory.path), real),
        };
        if is_hidden || self.is_withheld_name(&path) || self.is_withheld_name(real) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(ProgramFile {
            path: match place {
                LinkTarget::Inside(inside) => directory.path.join(inside),
                LinkTarget::Outside(real) => real,
            },
            metadata: file.metadata()?,
        })
    }

    /// Why `open_below` has refused a path, for WATCH.
    pub(crate) fn refusal(&self, relative: &str, error: &io::Error) -> String {
        if !is_withheld(error) {
            return error.to_string();
        }
        let path = &*path_of(relative);
        let is_private = |place: &OpenDirectory| place.private.iter().any(|private| place.is_in(path, private));
        let is_of_server = |place: &OpenDirectory| place.withheld_below.iter().any(|file| file.is_at(path));
        let place = self.place.get();
        let why = match place {
            _ if is_hidden(path) => "its name is hidden (a leading dot)",
            _ if self.is_of_scripts() || path.iter().any(is_script_directory) => {
                "it lies in a directory of scripts (cgi-bin, cgiplus-bin)"
            }
            Some(place) if is_private(place) => {
                "it lies in a directory whose files are never served, such as that of scripts"
            }
            Some(place) if is_of_server(place) => "it is a file of the server: configuration, log or key",
            _ if self.is_program(path) => "a route runs it as a script",
            _ if self.is_withheld_name(path) => "its name is withheld, as those of backups are",
            _ => "what it is, or what its link leads to, is never served: a script, or a file that is withheld",
        };
        why.to_owned()
    }

    /// Opens a file as `open_below` does, but follows no symbolic links; for callers that change files.
    pub(crate) fn open_without_links(&self, relative: &str) -> io::Result<ServedFile> {
        let open = || Ok((self.open_linkless(relative)?, ()));
        Ok(answered(Question::WithoutLinks, self.id.0, relative, again, open)?.0)
    }

    fn open_linkless(&self, relative: &str) -> io::Result<ServedFile> {
        let place = self.place()?;
        if !self.may_serve(place, &path_of(relative)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = if relative.is_empty() { "." } else { relative };
        match place.open_within(name, READ, ResolveFlags::NO_SYMLINKS) {
            Err(Errno::XDEV) if leaves(|| place.share(Path::new(relative))) => Err(left()),
            Err(Errno::XDEV) => {
                let file = place.open_with(name, READ, ResolveFlags::NO_SYMLINKS)?;
                Ok(ServedFile::anywhere(file.into()))
            }
            other => Ok(place.served(other?)),
        }
    }

    /// Opens a path with symbolic links. The file must be servable by its real name too.
    fn open_through_links(&self, directory: &OpenDirectory, name: &str, access: OFlags) -> io::Result<ServedFile> {
        let (file, place) = links::open_unreplaced(|| self.open_beneath(directory, name, access))?;
        let may_serve = match &place {
            LinkTarget::Inside(inside) => {
                self.may_serve(directory, inside) && !self.is_program(inside) && !self.is_withheld_name(inside)
            }
            LinkTarget::Outside(real) => self.may_serve_outside(directory, real),
        };
        if may_serve { Ok(file) } else { Err(withheld()) }
    }

    /// Opens a path with symbolic links, which may leave the directory if they are followed.
    fn open_beneath(
        &self,
        directory: &OpenDirectory,
        name: &str,
        access: OFlags,
    ) -> io::Result<(ServedFile, LinkTarget)> {
        let (file, real) = match directory.open_within(name, access, ResolveFlags::empty()) {
            Err(Errno::XDEV | Errno::ACCESS) if leaves(|| directory.share(&path_of(name))) => return Err(left()),
            Err(Errno::XDEV) => self.open_anywhere(directory, name, access)?,
            // Too many links.
            Err(Errno::LOOP) => return Err(io::ErrorKind::NotFound.into()),
            other => {
                let file = directory.served(other?);
                let real = links::real_path(&file)?;
                (file, real)
            }
        };
        let place = match real.strip_prefix(&directory.path) {
            Ok(inside) => LinkTarget::Inside(inside.to_owned()),
            Err(_) if self.follow != FollowLinks::No => LinkTarget::Outside(real),
            Err(_) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok((file, place))
    }

    /// Opens a path whose links leave the directory or lead to another file system.
    fn open_anywhere(
        &self,
        directory: &OpenDirectory,
        name: &str,
        access: OFlags,
    ) -> io::Result<(ServedFile, PathBuf)> {
        let (file, real) = match directory.open_with(name, access, ResolveFlags::empty()) {
            // A link leaves the directory, or is absolute (openat2(2)).
            Err(Errno::XDEV) => {
                let descriptor = directory.descriptor.as_fd();
                let (file, real) = links::open_leaving(descriptor, &directory.path, &path_of(name), self.follow)?;
                (links::reopen(file, access)?, real)
            }
            other => {
                let file = File::from(other?);
                let real = links::real_path(&file)?;
                (file, real)
            }
        };
        Ok((ServedFile::anywhere(file), real))
    }

    /// Whether the path, relative to this directory, is that of a script, whose text is not sent.
    pub(crate) fn is_program(&self, inside: &Path) -> bool {
        if self.programs.is_empty() {
            return false;
        }
        let path = format!("/{}", text_of_path(inside));
        self.programs.iter().any(|is_program| is_program(&path))
    }

    fn may_serve(&self, place: &OpenDirectory, inside: &Path) -> bool {
        !is_hidden(inside)
            && !self.is_of_scripts()
            && !inside.iter().any(is_script_directory)
            && !place.private.iter().any(|private| place.is_in(inside, private))
            && !place.private_later.iter().any(|link| place.is_in_later(inside, link))
            && !place.private_unanswered.iter().any(|at| place.is_in_path(inside, at))
            && !place.withheld_below.iter().any(|file| file.is_at(inside))
    }

    /// Whether a file outside may be sent to which a link leads.
    fn may_serve_outside(&self, place: &OpenDirectory, real: &Path) -> bool {
        if leaves_path(real) {
            return false;
        }
        let is_in = |source: &Path| source.canonicalize().is_ok_and(|source| real.starts_with(source));
        let is_source = |source: &PathBuf| !leaves_path(source) && is_in(source);
        !is_hidden_outside(real, &place.path)
            && !real.iter().any(is_script_directory)
            && !self.is_withheld_name(real)
            && !self.withheld.is_at(real)
            && !self.sources_outside.iter().any(is_source)
            && !self.programs_outside.iter().any(|test| test(&text_of_path(real)))
    }

    fn is_withheld_name(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().map(OsStr::to_string_lossy) else {
            return false;
        };
        let name = match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => name,
        };
        let plain = without_coding(&name);
        let is_meant = |pattern: &Wildcard, name| pattern.matches(name).is_some();
        let mut patterns = self.withheld_names.iter();
        patterns.any(|pattern| is_meant(pattern, &*name) || plain.is_some_and(|plain| is_meant(pattern, plain)))
    }
}

/// The name of a file without the suffix of its compression; `None` if it has none.
pub fn without_coding(name: &str) -> Option<&str> {
    COMPRESSED.iter().find_map(|suffix| name.strip_suffix(suffix))
}

fn or_left(error: io::Error) -> io::Error {
    if has_left() { left() } else { error }
}

/// A second answer of the same meaning, for `answered`.
fn again<T: Clone>(answer: &io::Result<(ServedFile, T)>) -> io::Result<(ServedFile, T)> {
    match answer {
        Ok((file, about)) => Ok((file.try_clone()?, about.clone())),
        Err(error) => Err(match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => error.kind().into(),
        }),
    }
}

/// Access to a file that is to be sent. NONBLOCK: opening a FIFO must not block the worker; it is rejected later because it is not a regular file.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Whether a path has a hidden name. So have `.` and `..`, because they would defeat the comparison with private directories.
fn is_hidden(inside: &Path) -> bool {
    inside.components().any(|part| match part {
        Component::Normal(name) => name.as_encoded_bytes().starts_with(b".") && name != ".well-known",
        _ => true,
    })
}

/// Whether the path of a file outside has a hidden name below the last directory in common with the served one: the administrator has chosen the names above.
fn is_hidden_outside(real: &Path, served: &Path) -> bool {
    let pairs = real.components().zip(served.components());
    let shared_parts = pairs.take_while(|(own, other)| own == other).count();
    is_hidden(&real.components().skip(shared_parts).collect::<PathBuf>())
}

/// Whether a name is one of `SCRIPT_DIRECTORIES`, in any case, because a file system may ignore it.
fn is_script_directory(name: &OsStr) -> bool {
    SCRIPT_DIRECTORIES.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// The error for a path that is never served, also if nothing is there. Unlike those of the system it has an inner error.
fn withheld() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "withheld")
}

pub(crate) fn is_withheld(error: &io::Error) -> bool {
    let inner = error.get_ref().filter(|_| error.kind() == io::ErrorKind::NotFound);
    inner.is_some_and(|inner| !inner.is::<Missing>() && !inner.is::<RefusedLink>())
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
