//! A directory that files are served from, held open, and the rule that nothing outside it is ever reached.
//!
//! The kernel enforces the rule: every open is an openat2(2) with RESOLVE_BENEATH, which refuses `..`, absolute symbolic
//! links and links that leave the directory at every step, without a race. What the kernel cannot know is added here: hidden
//! names (a leading dot, but `.well-known`, RFC 8615) and private places, such as a script directory that lies inside the
//! served one, are not there, not even through a symbolic link from elsewhere in the directory.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::records::Records;

/// Tells directories apart: the same place opened anew, under other rules, is another directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectoryId(u64);

/// A directory held open.
pub struct Directory {
    id: DirectoryId,
    path: PathBuf,
    descriptor: OwnedFd,
    /// Directories below this one whose files are never served: paths relative to it.
    private: Vec<PathBuf>,
    /// Paths below this one that are scripts, not files.
    programs: Vec<Program>,
    /// How its files are stored, where that is not as bytes.
    records: Option<Records>,
    /// Directories in it without an index page are listed.
    is_listed: bool,
}

/// Tells whether a path is a script's.
pub type Program = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Directory {
    /// Opens a directory. An error is the administrator's: it is not there, or may not be read.
    pub fn open(path: &Path) -> io::Result<Directory> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let path = path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Directory {
            // Relaxed: only that no number comes twice matters.
            id: DirectoryId(OPENED.fetch_add(1, Ordering::Relaxed)),
            path,
            descriptor,
            private: Vec::new(),
            programs: Vec::new(),
            records: None,
            is_listed: false,
        })
    }

    pub fn id(&self) -> DirectoryId {
        self.id
    }

    /// Where it is, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its files are records.
    pub fn hold_records(&mut self, records: Records) {
        self.records = Some(records);
    }

    pub(crate) fn records(&self) -> Option<&Records> {
        self.records.as_ref()
    }

    /// Withholds another directory's files if it lies within this one.
    pub fn withhold(&mut self, other: &Path) {
        if let Ok(other) = other.canonicalize()
            && let Ok(inside) = other.strip_prefix(&self.path)
            && !inside.as_os_str().is_empty()
        {
            self.private.push(inside.to_owned());
        }
    }

    /// Withholds what is a script by its path, whatever other name leads to it.
    pub fn withhold_programs(&mut self, program: Program) {
        self.programs.push(program);
    }

    /// Lets directories in it that have no index page be listed.
    pub fn set_listed(&mut self, is_listed: bool) {
        self.is_listed = is_listed;
    }

    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Opens a file or directory for reading by its path below this directory (no leading slash; empty = the directory itself).
    ///
    /// What may not be served is `NotFound`, as if it were not there; what the system refuses keeps its error.
    pub(crate) fn open_below(&self, relative: &str) -> io::Result<File> {
        let path = Path::new(relative);
        // A script's path leads here where conditions keep its own route from it: still it is no file.
        if !self.may_serve(path) || self.is_program(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = if relative.is_empty() { "." } else { relative };
        // Most paths hold no symbolic link, and then the checked name is the real one.
        match self.open_with(name, ResolveFlags::NO_SYMLINKS) {
            Err(Errno::LOOP) => self.open_through_links(name),
            other => Ok(other?.into()),
        }
    }

    /// As `open_below`, for who is to change something there: over no symbolic link at all.
    pub(crate) fn open_without_links(&self, relative: &str) -> io::Result<File> {
        if !self.may_serve(Path::new(relative)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = if relative.is_empty() { "." } else { relative };
        Ok(self.open_with(name, ResolveFlags::NO_SYMLINKS)?.into())
    }

    /// The path leads over symbolic links that stay inside: what it leads to must be servable by its real name too.
    fn open_through_links(&self, name: &str) -> io::Result<File> {
        let file = match self.open_with(name, ResolveFlags::empty()) {
            // EXDEV: a link leaves the directory (openat2(2)); ELOOP: too many links.
            Err(Errno::XDEV | Errno::LOOP) => return Err(io::ErrorKind::NotFound.into()),
            other => File::from(other?),
        };
        let real = rustix::fs::readlink(proc_path(&file), Vec::new())?;
        let real = PathBuf::from(std::ffi::OsString::from(
            real.into_string().map_err(|_| io::ErrorKind::NotFound)?,
        ));
        match real.strip_prefix(&self.path) {
            Ok(inside) if self.may_serve(inside) && !self.is_program(inside) => Ok(file),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open_with(&self, name: &str, more: ResolveFlags) -> Result<OwnedFd, Errno> {
        // NONBLOCK: a FIFO in the directory must not hold the worker; it is refused later, not being a plain file.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
        loop {
            // EAGAIN: something was renamed meanwhile and the kernel could not be sure (openat2(2)).
            match rustix::fs::openat2(&self.descriptor, name, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
    }

    /// Whether what lies there is a script by its path, whose text is not sent.
    pub(crate) fn is_program(&self, inside: &Path) -> bool {
        if self.programs.is_empty() {
            return false;
        }
        let path = format!("/{}", inside.display());
        self.programs.iter().any(|is_program| is_program(&path))
    }

    fn may_serve(&self, inside: &Path) -> bool {
        // `.` and `..` name nothing of their own, and would slip past the comparison with private places.
        let is_hidden = inside.components().any(|part| match part {
            Component::Normal(name) => name.as_encoded_bytes().starts_with(b".") && name != ".well-known",
            _ => true,
        });
        !is_hidden && !self.private.iter().any(|private| inside.starts_with(private))
    }
}

fn proc_path(file: &File) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_hidden_or_private_is_opened() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for directory in ["cgi-bin", "sub", ".git", ".well-known"] {
            std::fs::create_dir(at(directory)).unwrap();
            std::fs::write(at(directory).join("file"), "f").unwrap();
        }
        symlink(outside.path().join("secret"), at("leaves")).unwrap();
        symlink("../secret", at("climbs")).unwrap();
        symlink("sub/file", at("stays")).unwrap();
        symlink("cgi-bin/file", at("to-private")).unwrap();
        symlink(".git", at("to-hidden")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let mut directory = Directory::open(root.path()).unwrap();
        directory.withhold(&at("cgi-bin"));

        for name in ["sub/file", "stays", ".well-known/file", ""] {
            assert!(directory.open_below(name).is_ok(), "{name}");
        }
        for name in [
            "leaves",
            "climbs",
            "cgi-bin/file",
            "cgi-bin",
            "to-private",
            "to-hidden/file",
            ".git/file",
            "loop",
            "none",
            "./cgi-bin/file",
            "./sub/file",
            "../x",
        ] {
            let error = directory.open_below(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}: {error}");
        }
    }
}
