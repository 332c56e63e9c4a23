//! The process table: which processes belong to a server under test, and which descriptors it has open.
//!
//! A script's children may outlive it, leave its process group or session, and get another parent, but they keep the
//! environment. So every server and script carries a mark there, and each process with that mark belongs to that test.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A script with a descendant that has left its session and ignores signals, as daemons may. Both run until they are killed.
pub const FAMILY: &str = r#"exec 9> "$TEST_DIR/events"
python3 -c '
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(9, b"started\n")
        time.sleep(1000)
' &
trap "" TERM HUP
sleep 1000"#;

/// The variable that marks the processes of one server.
pub(crate) const MARK: &str = "SLUICE_TEST_MARK";

/// A process, as shown by a failing test.
pub struct Process {
    pub pid: u32,
    /// The command line, or the name in parentheses if the process is a zombie.
    pub command: String,
}

impl fmt::Debug for Process {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.pid, self.command)
    }
}

/// Every process of a server except the server itself, its server process and its launchers: those with its mark, and its children, including zombies.
pub(crate) fn processes_of(server: u32, mark: &str) -> Vec<Process> {
    let mark = format!("{MARK}={mark}");
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut own = vec![Some(server), Some(server_process_of(server))];
    own.extend(launchers_of(server).into_iter().map(Some));
    pids.filter(|pid| !own.contains(&Some(*pid)))
        .filter(|pid| has_mark(*pid, mark.as_bytes()) || own.contains(&parent(*pid)))
        .filter(|pid| !(parent(*pid) == Some(server) && (is_server_process(*pid) || is_launcher(*pid))))
        .map(|pid| Process { pid, command: command(pid) })
        .collect()
}

/// The server process of a supervisor, or the process itself if it has none (`sluice serve`).
pub(crate) fn server_process_of(pid: u32) -> u32 {
    let pids = children_of(pid);
    // After an upgrade the older one may still be ending.
    pids.into_iter().rfind(|pid| is_server_process(*pid)).unwrap_or(pid)
}

/// The launchers of a supervisor, the oldest first.
pub fn launchers_of(pid: u32) -> Vec<u32> {
    let mut launchers = children_of(pid);
    launchers.retain(|pid| is_launcher(*pid));
    launchers
}

/// A child of a process that has this name in the process table, such as `sluice: reader`.
pub fn child_of(pid: u32, name: &str) -> Option<u32> {
    let line = format!("{name}\0");
    let is_it = |pid: &u32| fs::read(proc_path(*pid, "cmdline")).is_ok_and(|read| read.starts_with(line.as_bytes()));
    children_of(pid).into_iter().find(is_it)
}

fn children_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(proc_path(pid, "task").join(pid.to_string()).join("children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn is_launcher(pid: u32) -> bool {
    fs::read(proc_path(pid, "cmdline")).is_ok_and(|line| line.starts_with(b"sluice: launcher\0"))
}

fn is_server_process(pid: u32) -> bool {
    fs::read(proc_path(pid, "cmdline")).is_ok_and(|line| line.starts_with(b"sluice: server\0"))
}

/// The descriptors that a server holds for exchanges and scripts, one line each: connections, pipes, files, pidfds, memory. Its listening sockets and the
/// descriptors of its event loops are left out, because they appear at some moment during its start.
pub(crate) fn descriptors_of(server: u32) -> Vec<String> {
    let entries = fs::read_dir(proc_path(server, "fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()));
    let sockets = sockets();
    let mut held: Vec<String> = links
        .filter(|link| match link.strip_prefix("socket:[") {
            Some(inode) => sockets.contains(inode.trim_end_matches(']')),
            // The third one holds cached content, and free cgroups are kept; both have their own limit. The last but one is the lock of the
            // directory for temporary files, which is opened when it is needed; the last one are the numbers that each thread of a launcher reserves, of which
            // there are more while starts take long.
            None => ![
                "[eventpoll]",
                "[eventfd]",
                "/memfd:sluice-content",
                "/sys/fs/cgroup/",
                "/sluice-tmp.",
                "/dev/null",
            ]
            .iter()
            .any(|kind| link.contains(kind)),
        })
        .collect();
    held.sort();
    held
}

/// The inodes of all connected TCP sockets and all SEQPACKET sockets of this machine (proc_net_tcp(5), proc_net_unix(5)).
fn sockets() -> HashSet<String> {
    const LISTENING: &str = "0A";
    const SEQPACKET: &str = "0005";
    let table = |name: &str| fs::read_to_string(Path::new("/proc/net").join(name)).unwrap_or_default();
    let column = |line: &str, index: usize| line.split_whitespace().nth(index).unwrap_or_default().to_owned();
    let (tcp, unix) = (table("tcp"), table("unix"));
    let connected = tcp
        .lines()
        .filter(|line| column(line, 3) != LISTENING)
        .map(|line| column(line, 9));
    let record = unix
        .lines()
        .filter(|line| column(line, 4) == SEQPACKET)
        .map(|line| column(line, 6));
    connected.chain(record).collect()
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z" && fields[0] != "X")
}

fn has_mark(pid: u32, mark: &[u8]) -> bool {
    // Unreadable if the process is gone or belongs to another user.
    let environment = fs::read(proc_path(pid, "environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark)
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?[1].parse().ok()
}

/// The fields of /proc/PID/stat after the name, which is in parentheses and may contain anything (proc_pid_stat(5)).
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(proc_path(pid, "stat")).ok()?;
    let fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(fields.map(str::to_owned).collect())
}

fn command(pid: u32) -> String {
    let line = fs::read(proc_path(pid, "cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&line).replace('\0', " ");
    match words.trim() {
        "" => format!(
            "({})",
            fs::read_to_string(proc_path(pid, "comm")).unwrap_or_default().trim()
        ),
        words => words.to_owned(),
    }
}

fn proc_path(pid: u32, name: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(name)
}
