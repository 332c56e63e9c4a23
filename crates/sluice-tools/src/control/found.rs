//! Messages of a command about the servers that it has found, or has not: their processes, users and sockets.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use sluice_report::command::ServerReport;

pub(super) struct Running {
    pub(super) pid: u32,
    pub(super) socket: PathBuf,
    pub(super) stream: UnixStream,
}

/// `process ids 7, 9`, for a message.
pub(super) fn process_ids(pids: &[u32]) -> String {
    let shown: Vec<String> = pids.iter().map(ToString::to_string).collect();
    match &*shown {
        [] => "none runs".to_owned(),
        [one] => format!("process id {one}"),
        several => format!("process ids {}", several.join(", ")),
    }
}

/// A server, for a choice among several: `7: /etc/sluice.toml on [::]:443`.
pub(super) fn described(pid: u32, state: Option<&ServerReport>) -> String {
    let Some(state) = state else {
        return format!("{pid}, which does not answer");
    };
    let file = state.configuration.as_deref().unwrap_or("no configuration file");
    let addresses = state.status.addresses.join(", ");
    format!("{pid}: {file} on {addresses}")
}

/// Whether nothing listens on a socket.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Why a command cannot connect to a socket, and what helps.
pub(super) fn refusal(socket: &Path, error: &io::Error) -> String {
    let shown = socket.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{shown}: there is no such socket: either no server runs, or its configuration names another one (control); \"sluice run\" starts one"
        ),
        io::ErrorKind::ConnectionRefused => {
            format!(
                "{shown}: no process listens on it: the server that made it was killed; \"sluice run\" starts it again"
            )
        }
        io::ErrorKind::PermissionDenied => {
            let owner = fs::symlink_metadata(socket).map(|about| format!(": it belongs to {}", user(about.uid())));
            format!(
                "{shown}: permission denied{}: give the command as the user of the server, or as root",
                owner.unwrap_or_default()
            )
        }
        _ => format!("{shown}: {error}"),
    }
}

/// `user www-data`, or `user 33` if the number has no name in /etc/passwd.
pub(super) fn user(number: u32) -> String {
    let table = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    });
    format!("user {}", name.unwrap_or_else(|| number.to_string()))
}

/// The paths of the unix sockets on which a process listens (`proc_net_unix(5)`). None unless its descriptors may be seen, which takes root
/// for a server of another user, and for one without `core_dumps`.
pub(super) fn sockets_of(pid: u32) -> Vec<PathBuf> {
    /// Flags and state of a socket that accepts connections.
    const LISTENING: &str = "00010000";
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let own: Vec<String> = links
        .filter_map(|link| fs::read_link(link.path()).ok()?.into_os_string().into_string().ok())
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut paths: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let flags = fields.nth(3)?;
            let inode = fields.nth(2)?;
            let path = line.split_once(inode)?.1.trim_start();
            (flags == LISTENING && path.starts_with('/') && own.iter().any(|number| number == inode))
                .then(|| path.into())
        })
        .collect();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_if_the_system_knows_them() {
        assert_eq!(user(0), "user root");
        assert_eq!(user(4_000_000_001), "user 4000000001");
    }

    #[test]
    fn a_listening_socket_of_this_process_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let _other = std::os::unix::net::UnixDatagram::bind(directory.path().join("other")).unwrap();
        let found = sockets_of(std::process::id());
        assert!(found.contains(&path), "{found:?}");
        assert!(!found.iter().any(|path| path.ends_with("other")), "{found:?}");
    }
}
