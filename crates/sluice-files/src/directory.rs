//! A directory that files are served from, held open. Nothing outside it is ever reached.
//!
//! The kernel enforces this: every open is an openat2(2) with RESOLVE_BENEATH, which rejects `..`, absolute symbolic links
//! and links that leave the directory, at every step and without a race. Two rules that the kernel does not know are enforced
//! here, also for symbolic links from elsewhere in the directory: hidden names (a leading dot, except `.well-known`, RFC 8615)
//! and private directories, such as a script directory inside the served one, do not exist for clients.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The identity of an open directory. The same path opened again has another id, because its rules may differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectoryId(u64);

/// An open directory.
pub struct Directory {
    id: DirectoryId,
    path: PathBuf,
    descriptor: OwnedFd,
    /// Directories whose files are never served, relative to this one.
    private: Vec<PathBuf>,
    /// Tests for paths that are scripts, whose text is never served.
    programs: Vec<Program>,
    /// Whether directories without an index page are listed.
    is_listed: bool,
}

/// A test whether a path, with a leading slash, is that of a script.
pub type Program = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Directory {
    /// Opens a directory.
    ///
    /// # Errors
    /// It does not exist or may not be read; the administrator's fault.
    pub fn open(path: &Path) -> io::Result<Directory> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let path = path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Directory {
            // Relaxed: the numbers only have to be different.
            id: DirectoryId(OPENED.fetch_add(1, Ordering::Relaxed)),
            path,
            descriptor,
            private: Vec::new(),
            programs: Vec::new(),
            is_listed: false,
        })
    }

    /// Its identity in the cache.
    pub fn id(&self) -> DirectoryId {
        self.id
    }

    /// Its path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory `other` private if it lies inside this one.
    pub fn withhold(&mut self, other: &Path) {
        if let Ok(other) = other.canonicalize()
            && let Ok(inside) = other.strip_prefix(&self.path)
            && !inside.as_os_str().is_empty()
        {
            self.private.push(inside.to_owned());
        }
    }

    /// Does not serve files whose path is that of a script, also if another name leads to them.
    pub fn withhold_programs(&mut self, program: Program) {
        self.programs.push(program);
    }

    /// Lets directories without an index page be listed; without this they are not.
    pub fn list(&mut self) {
        self.is_listed = true;
    }

    /// Whether directories without an index page are listed.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Opens a file or directory for reading, by its path below this directory without a leading slash; an empty path is the
    /// directory itself.
    ///
    /// # Errors
    /// `NotFound` also for files that may not be served; otherwise the error of the system.
    pub(crate) fn open_below(&self, relative: &str) -> io::Result<File> {
        let path = Path::new(relative);
        // The path of a script leads here if the conditions of its route do not hold: its text is not served then either.
        if !self.may_serve(path) || self.is_program(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = if relative.is_empty() { "." } else { relative };
        // Without symbolic links, as in most paths, the checked name is the real one.
        match self.open_with(name, ResolveFlags::NO_SYMLINKS) {
            Err(Errno::LOOP) => self.open_through_links(name),
            other => Ok(other?.into()),
        }
    }

    /// As `open_below`, but follows no symbolic links; for callers that change files.
    pub(crate) fn open_without_links(&self, relative: &str) -> io::Result<File> {
        if !self.may_serve(Path::new(relative)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = if relative.is_empty() { "." } else { relative };
        Ok(self.open_with(name, ResolveFlags::NO_SYMLINKS)?.into())
    }

    /// Opens a path with symbolic links that stay inside. The file must be servable by its real name too.
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
        // NONBLOCK: opening a FIFO must not block the worker; it is rejected later because it is not a regular file.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
        loop {
            // EAGAIN: a concurrent rename, so that the kernel could not be sure (openat2(2)).
            match rustix::fs::openat2(&self.descriptor, name, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
    }

    /// Whether the path, relative to this directory, is that of a script, whose text is not sent.
    pub(crate) fn is_program(&self, inside: &Path) -> bool {
        if self.programs.is_empty() {
            return false;
        }
        let path = format!("/{}", inside.display());
        self.programs.iter().any(|is_program| is_program(&path))
    }

    fn may_serve(&self, inside: &Path) -> bool {
        // `.` and `..` are rejected because they would defeat the comparison with private directories.
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
    fn hidden_and_private_files_and_files_outside_are_not_opened() {
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
