//! Unix sockets: the file that clients connect to, from its creation to its removal.
//!
//! A socket file that a killed server left behind is replaced. One on which a process listens, or another file, never is.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode as FileMode, OFlags};
use sluice_launch::{deadline, refuse_descriptors};
use sluice_settings::address::UNIX_PATH_BYTES_MAX;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::listener::BACKLOG;
use crate::unix_peer::close_listener;

/// The file of a listening socket. Dropping this removes the file, unless another process has replaced it.
pub struct SocketFile {
    path: PathBuf,
    /// The device and inode number. No other file has them while the socket is open, so it is kept open.
    identity: (u64, u64),
    socket: Option<OwnedFd>,
}

impl SocketFile {
    /// The file of a socket that another process has bound. An error: it is gone.
    pub fn of(path: &Path, socket: OwnedFd) -> io::Result<SocketFile> {
        Ok(SocketFile {
            path: path.to_owned(),
            identity: identity(path)?,
            socket: Some(socket),
        })
    }
}

/// Binds a socket to a file and listens on it. Processes with write permission by `mode` may connect. An error is the
/// administrator's fault: the path is too long or taken, or its directory does not exist or may not be written to.
pub fn bind(path: &Path, mode: u32) -> io::Result<(OwnedFd, SocketFile)> {
    match bind_new(path, mode) {
        // Of two servers that start at the same moment and both find an abandoned file, the later one gets it.
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_abandoned(path, &address(path)?)?;
            bind_new(path, mode)
        }
        bound => bound,
    }
}

/// Binds a socket as `bind` does, unless there is a file.
pub fn bind_new(path: &Path, mode: u32) -> io::Result<(OwnedFd, SocketFile)> {
    let address = address(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // Before anybody can connect, so each connection refuses them, too.
    refuse_descriptors(&socket);
    socket.bind(&address).map_err(|error| match error.kind() {
        ErrorKind::NotFound => io::Error::other("its directory does not exist: create it"),
        _ => error,
    })?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: identity(path)?,
        socket: Some(socket.try_clone()?.into()),
    };
    // The earlier mode does not matter, because nobody can connect before `listen`.
    set_mode(path, mode)?;
    socket.listen(BACKLOG)?;
    Ok((socket.into(), file))
}

/// Sets the mode of a socket file, and of no other file: where others can change the directory, its name may lead to any by now.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let file = rustix::fs::open(
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        FileMode::empty(),
    )?;
    let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let about = rustix::fs::fstat(&file)?;
    let is_own = about.st_uid == rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(about.st_mode) != FileType::Socket || !is_own {
        return Err(io::Error::other("another process has replaced the socket file"));
    }
    fs::set_permissions(by_descriptor, Permissions::from_mode(mode))
}

fn address(path: &Path) -> io::Result<SockAddr> {
    let bytes = path.as_os_str().len();
    if bytes > UNIX_PATH_BYTES_MAX {
        let text =
            format!("the path has {bytes} bytes, but the system allows {UNIX_PATH_BYTES_MAX}: choose a shorter one");
        return Err(io::Error::other(text));
    }
    SockAddr::unix(path)
}

/// Removes a socket file on which no process listens.
fn remove_abandoned(path: &Path, address: &SockAddr) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    // Held open, so that the file is removed from the directory in which it was found, wherever the path leads by then.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(parent, flags, FileMode::empty())?;
    let about = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        // Removed meanwhile.
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        about => about?,
    };
    if FileType::from_raw_mode(about.st_mode) != FileType::Socket {
        return Err(io::Error::other(
            "a file of this name exists and is not a socket: remove it, or choose another name",
        ));
    }
    let client = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    client.set_nonblocking(true)?;
    match client.connect(address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        Ok(()) => Err(taken(&client)),
        // The queue of the listener is full.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::AddrInUse.into()),
        Err(error) => {
            let text = format!("a socket exists, and the check whether a process listens on it failed: {error}");
            Err(io::Error::new(error.kind(), text))
        }
    }
}

fn taken(client: &Socket) -> io::Error {
    match rustix::net::sockopt::socket_peercred(client) {
        Ok(listener) => {
            let text = format!("address in use: process {} listens on it", listener.pid);
            io::Error::new(ErrorKind::AddrInUse, text)
        }
        Err(_) => ErrorKind::AddrInUse.into(),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A server that ends does not wait for a directory that somebody holds: the next one removes a file on which nobody listens.
        let (path, own) = (self.path.clone(), self.identity);
        let remove = move || match identity(&path).is_ok_and(|now| now == own) {
            true => fs::remove_file(&path),
            false => Ok(()),
        };
        if let Err(error) = deadline::with_deadline(|| deadline::ask(&self.path, remove)) {
            tracing::warn!("socket {}: {error}", self.path.display());
        }
        if let Some(socket) = self.socket.take() {
            close_listener(socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_socket_has_its_mode_and_is_removed_on_drop() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        for wanted in [0o660, 0o666, 0o600] {
            let (_socket, file) = bind(&path, wanted).unwrap();
            assert_eq!(mode(&path), wanted);
            drop(file);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_socket_is_replaced_only_if_no_process_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let other = UnixListener::bind(&path).unwrap();
        assert_eq!(bind(&path, 0o600).err().unwrap().kind(), ErrorKind::AddrInUse);
        // As after a SIGKILL: the file stays.
        drop(other);
        let (_socket, file) = bind(&path, 0o600).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(file);
        fs::write(&path, "a page").unwrap();
        let refusal = bind(&path, 0o600).err().unwrap().to_string();
        assert!(
            refusal.starts_with("a file of this name exists and is not a socket"),
            "{refusal}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"a page");
    }

    #[test]
    fn the_socket_of_another_process_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let (_socket, file) = bind(&path, 0o600).unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(file);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn messages_say_how_to_fix_a_refused_path() {
        let directory = tempfile::tempdir().unwrap();
        let long = directory.path().join("x".repeat(UNIX_PATH_BYTES_MAX));
        let refusal = bind(&long, 0o600).err().unwrap().to_string();
        assert!(
            refusal.ends_with("the system allows 107: choose a shorter one"),
            "{refusal}"
        );
        let refusal = bind(&directory.path().join("a/s"), 0o600).err().unwrap().to_string();
        assert_eq!(refusal, "its directory does not exist: create it");
    }
}
