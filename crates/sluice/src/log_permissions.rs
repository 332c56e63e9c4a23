//! `sluice check` for log files, and for the files of request bodies: whether the server process could open or make them, which a reload needs.
//!
//! Nothing is opened, because that would make the files. Permission bits decide for the user of the server process, as for the other files that `check` judges. Mounts that are
//! read-only for the running server alone, as under a unit of systemd, are found through its /proc/PID/root.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use sluice_config::{Mistake, ServerUsers};
use sluice_launch::deadline;
use sluice_settings::permission::{Use, denial, read_only_help};
use sluice_settings::{ControlSocket, Settings};

use crate::supervisor::in_directory_of_root;

/// The logs and bodies that the server process cannot open or make: each with why, and with the command that permits it.
pub(crate) fn mistakes(settings: &Settings, users: &ServerUsers) -> Vec<Mistake> {
    let root = root_of_server(&settings.control, users);
    let mut found = Vec::new();
    if let (Some(spool), Some(root)) = (&settings.spool_directory, &root) {
        let refusal = read_only(&spool.join("body"), root, users);
        let message = |why| format!("[server] spool_directory {}: {why}", spool.display());
        found.extend(refusal.map(|why| Mistake::of_nothing(message(why))));
    }
    for (file, (kind, origin)) in log_files(settings) {
        let read_only = root.as_deref().and_then(|root| read_only(&file, root, users));
        for why in read_only.into_iter().chain(denied(&file, users)) {
            let message = format!("{kind} {}: {why}", file.display());
            found.push(match origin {
                Some(origin) => Mistake::of_route(origin, message),
                None => Mistake::of_nothing(message),
            });
        }
    }
    found
}

/// Each log file once, with the name of the log in messages, and the first site that has it for itself.
fn log_files(settings: &Settings) -> BTreeMap<PathBuf, (&'static str, Option<&str>)> {
    let mut files = BTreeMap::new();
    let of_server = [
        (settings.server_log.file.as_deref(), "server log"),
        (settings.access_log.file(), "access log"),
    ];
    files.extend(
        of_server
            .into_iter()
            .filter_map(|(file, kind)| Some((file?.to_owned(), (kind, None)))),
    );
    for (site, file) in settings.site_log_files() {
        let of_site = ("access log", Some(site.origin.as_str()));
        files.entry(file.to_owned()).or_insert(of_site);
    }
    // Names of what a process has open are other files for another process.
    files.retain(|file, _| !file.starts_with("/dev") && !file.starts_with("/proc"));
    files
}

/// Why permissions keep the server process from appending to a file, or from making it.
fn denied(file: &Path, users: &ServerUsers) -> Option<String> {
    let about = deadline::metadata(file);
    if about.as_ref().is_ok_and(|about| !about.is_file()) || is_provided(file, users) {
        return None;
    }
    // For a file that does not exist, this asks the directories on the way.
    let denial = denial(file, Use::Write, &users.server).or_else(|| {
        let is_missing = deadline::symlink_metadata(file).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let parent = file.parent().filter(|_| is_missing)?;
        denial(parent, Use::Write, &users.server)
    });
    let begin = match about {
        Err(error) if error.kind() == ErrorKind::NotFound => "there is no such file, and ",
        _ => "",
    };
    denial.map(|denial| format!("{begin}{denial}"))
}

/// Whether a supervisor that is root makes the file for the server process, or gives it to its user.
fn is_provided(file: &Path, users: &ServerUsers) -> bool {
    if users.starter.uid() != 0 {
        return false;
    }
    let asked = file.to_owned();
    let look = move || {
        let Some(path) = in_directory_of_root(&asked) else {
            return Ok(false);
        };
        match path.symlink_metadata() {
            Ok(about) => Ok(about.is_file() && about.nlink() == 1),
            Err(error) => Ok(error.kind() == ErrorKind::NotFound),
        }
    };
    deadline::ask(file, look).unwrap_or(false)
}

/// Why the running server may not write a file that this process perhaps may: its mounts are others.
fn read_only(file: &Path, root: &Path, users: &ServerUsers) -> Option<String> {
    let directory = file.parent()?;
    let (asked, parent, root) = (file.to_owned(), directory.to_owned(), root.to_owned());
    let look = move || {
        // Links lead to the same places there; an absolute one that is met on the way would lead to those of this process.
        let real = asked.canonicalize().or_else(|_| parent.canonicalize())?;
        let place = root.join(real.strip_prefix("/").map_err(io::Error::other)?);
        Ok(statvfs(&place)?.f_flag.contains(StatVfsMountFlags::RDONLY))
    };
    let is_read_only = deadline::ask(directory, look).unwrap_or(false);
    is_read_only.then(|| {
        let error = io::Error::from(Errno::ROFS);
        format!("{error}: {}", read_only_help(directory, &users.server))
    })
}

/// The root directory as the running server with this control socket sees it. `None` if none runs, or this process may not ask: only root and the user
/// of the server may. A socket of another user than who starts the server is a stranger's.
fn root_of_server(control: &ControlSocket, users: &ServerUsers) -> Option<PathBuf> {
    let ControlSocket::Path(socket) = control else {
        return None;
    };
    let asked = socket.clone();
    let connect = move || Ok(socket_peercred(UnixStream::connect(&asked)?)?);
    let peer = deadline::ask(socket, connect).ok()?;
    let is_own = peer.uid.as_raw() == users.starter.uid();
    is_own.then(|| format!("/proc/{}/root", peer.pid.as_raw_nonzero()).into())
}
