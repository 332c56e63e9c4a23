//! The cgroups of script processes (cgroups(7), version 2): each process is created in one of its own, which all its descendants
//! share whatever they do, so all of them can be killed together and have common limits.
//!
//! ```text
//!   the server's cgroup, if the server may create others below it
//!    ├── sluice-server            the server's processes, moved here if a controller is needed (cgroups(7), "no internal processes")
//!    └── sluice.PID.0             of this server
//!         ├── 0, 1, 2 …           one for each script process: its limits, and how its processes are ended
//!         │    └── script         the process is created in it
//! ```
//! A process sees `script` as the root of its cgroup namespace, if it makes one, so its user can open it and keep its lock without bound (getdents64(2) into
//! memory that a file system of his own serves). What waits for that lock is rmdir(2), which then holds the lock of the parent. So `script` has a parent
//! of its own, which nobody but the server can open, and a cgroup is used again for processes of the same user only.
//!
//! A process without limits gets a cgroup of its user that has been used before, if one is free: a start then costs no system call more,
//! because the process is created there (CLONE_INTO_CGROUP), and whether it has left processes behind is one read
//! (`cgroup.events`). One with limits gets a new one, so that neither its memory nor its counters have a history. A cgroup
//! whose processes were killed is not used again: Linux 6.18 kills what CLONE_INTO_CGROUP creates there later.
//!
//! The hybrid layout of version 1 and 2 has no controllers here: processes are killed, and limits are refused.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, Mode as FileMode, OFlags, access};
use rustix::process::{Pid, Signal, kill_process};
use thiserror::Error;

use crate::confine::cgroup_limits::CgroupLimits;
use crate::confine::own_directory::OwnDirectory;
use crate::end::orphans;
use crate::end::session::{Survivors, terminate};
use crate::foreign::elsewhere::{LookupShare, begin_elsewhere, look_elsewhere};

const PREFIX: &str = "sluice.";
const SERVER: &str = "sluice-server";

/// The time after which the end of the processes of a cgroup is given up, as in `session`.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The time after which a directory counts as held.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait for one change of `cgroup.events`: a kernel may not announce the last one.
const ROUND: Duration = Duration::from_millis(20);

const INNER: &str = "script";

/// Free cgroups that are kept, of all users and of one. Each holds two descriptors.
const FREE_MAX: usize = 64;
const FREE_OF_USER_MAX: usize = 16;

/// The cgroups of one server. Dropping it ends the processes that are left in them, and removes them.
#[derive(Debug)]
pub struct Cgroups {
    base: PathBuf,
    own: OwnDirectory,
    free: Mutex<Vec<Leaf>>,
    number: AtomicU64,
    enabled: Mutex<HashSet<&'static str>>,
}

/// The reason why this server has no cgroups, or not all controllers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NoCgroups(String);

/// The cgroup of one script process, until it is dropped.
#[derive(Debug)]
pub struct ScriptCgroup {
    leaf: Option<Leaf>,
    all: Arc<Cgroups>,
    has_limits: bool,
    /// The cgroup was found without processes, and none was killed.
    is_reusable: AtomicBool,
}

#[derive(Debug)]
struct Leaf {
    /// The outer one, which has the limits.
    path: PathBuf,
    uid: u32,
    /// The inner one.
    directory: OwnedFd,
    /// `cgroup.events`: whether it has processes that have not exited.
    events: File,
}

impl Cgroups {
    /// Creates the cgroup of this server, and removes those that servers of the same user have left behind, with their processes. Nobody else can open
    /// it: whoever can open a directory can hold its lock (getdents64(2) into memory that does not answer), and nothing is created in it then.
    ///
    /// # Errors
    /// There is no cgroup of version 2, or the server may not create others below its own.
    pub fn open() -> Result<Arc<Cgroups>, NoCgroups> {
        let opened = in_time(Cgroups::open_now);
        opened.unwrap_or_else(|| Err(NoCgroups::held()))
    }

    fn open_now() -> Result<Arc<Cgroups>, NoCgroups> {
        let base = base()?;
        end_abandoned(&base);
        let failed = |error: io::Error| NoCgroups(format!("none can be created in {}: {error}", base.display()));
        let own = OwnDirectory::create(&base, PREFIX, 0o700).map_err(failed)?;
        Ok(Arc::new(Cgroups {
            base,
            own,
            free: Mutex::default(),
            number: AtomicU64::new(0),
            enabled: Mutex::default(),
        }))
    }

    /// The directory of its cgroups.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.own.path
    }

    /// Enables controllers for the cgroups of scripts; the server's processes are moved into one of their own if need be. Returns within five seconds.
    ///
    /// # Errors
    /// A controller is missing: it is not delegated to the server, or used by cgroups of version 1. Or somebody holds the lock of the server's cgroup.
    pub fn enable(self: &Arc<Cgroups>, controllers: &[&'static str]) -> Result<(), NoCgroups> {
        let (all, controllers) = (Arc::clone(self), controllers.to_owned());
        let enabled = in_time(move || all.enable_now(&controllers));
        enabled.unwrap_or_else(|| Err(NoCgroups::held()))
    }

    /// The same without a bound of time, if one is not enabled yet.
    fn enable_now(&self, controllers: &[&'static str]) -> Result<(), NoCgroups> {
        for controller in controllers {
            if !self.lock_enabled().contains(controller) {
                enable(&self.base, controller)?;
                enable(&self.own.path, controller)?;
                self.lock_enabled().insert(controller);
            }
        }
        Ok(())
    }

    pub(crate) fn take(self: &Arc<Cgroups>, limits: &CgroupLimits, uid: u32) -> io::Result<ScriptCgroup> {
        let has_limits = limits.is_any();
        let free = if has_limits { None } else { self.take_free(uid) };
        let leaf = match free {
            Some(leaf) => leaf,
            None => self.create(limits, uid)?,
        };
        Ok(ScriptCgroup {
            leaf: Some(leaf),
            all: Arc::clone(self),
            has_limits,
            is_reusable: AtomicBool::new(false),
        })
    }

    fn take_free(&self, uid: u32) -> Option<Leaf> {
        let mut free = self.lock_free();
        let last = free.iter().rposition(|leaf| leaf.uid == uid)?;
        Some(free.swap_remove(last))
    }

    /// Keeps a cgroup for another process of its user. Returns it if there are enough.
    fn keep(&self, leaf: Leaf) -> Result<(), Leaf> {
        let mut free = self.lock_free();
        let of_user = free.iter().filter(|other| other.uid == leaf.uid).count();
        if of_user >= FREE_OF_USER_MAX || free.len() >= FREE_MAX {
            return Err(leaf);
        }
        free.push(leaf);
        Ok(())
    }

    fn create(&self, limits: &CgroupLimits, uid: u32) -> io::Result<Leaf> {
        self.enable_now(&limits.controllers()).map_err(io::Error::other)?;
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let path = self.own.path.join(number.to_string());
        fs::create_dir(&path)?;
        let opened = (|| {
            for (file, content) in limits.files() {
                fs::write(path.join(file), content)?;
            }
            let inner = path.join(INNER);
            fs::create_dir(&inner)?;
            Ok(Leaf {
                directory: open_directory(&inner)?,
                events: File::open(path.join("cgroup.events"))?,
                path: path.clone(),
                uid,
            })
        })();
        opened.inspect_err(|_| _ = remove_all(&path))
    }

    fn lock_free(&self) -> MutexGuard<'_, Vec<Leaf>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_enabled(&self) -> MutexGuard<'_, HashSet<&'static str>> {
        self.enabled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        end_processes(&self.own.path);
        let path = self.own.path.clone();
        // The next server removes what is held now.
        in_time(move || remove_all(&path));
    }
}

impl ScriptCgroup {
    /// The directory, for the system call that creates a process in it.
    pub(crate) fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.leaf.as_ref().map(|leaf| leaf.directory.as_fd())
    }

    /// The file to which a process writes `0` to move there.
    pub(crate) fn members_file(&self) -> Option<CString> {
        let path = self.leaf.as_ref()?.path.join(INNER).join("cgroup.procs");
        CString::new(path.as_os_str().as_bytes()).ok()
    }

    /// Whether it has processes that have not exited; one read. Does not block. Without any after the exit of the process created in it, it gets no others.
    #[must_use]
    pub fn has_processes(&self) -> bool {
        let has_processes = self.leaf.as_ref().is_some_and(Leaf::has_processes);
        if !has_processes {
            self.is_reusable.store(!self.has_limits, Ordering::Relaxed);
        }
        has_processes
    }

    /// Ends all of its processes by SIGTERM and SIGKILL, and waits for their end. Waits: not for an event loop. Returns within three seconds.
    ///
    /// # Errors
    /// Some cannot be ended: they wait for a disk.
    pub fn end(&self) -> Result<(), Survivors> {
        let Some(leaf) = &self.leaf else { return Ok(()) };
        let ended = leaf.end();
        self.is_reusable.store(false, Ordering::Relaxed);
        // They are children of the server now.
        orphans::reap_orphans();
        ended
    }

    /// Whether its drop removes it, which may wait for other changes of cgroups, instead of keeping it for another process.
    #[must_use]
    pub fn is_removed_by_drop(&self) -> bool {
        !self.is_reusable.load(Ordering::Relaxed)
    }

    /// How often the kernel has killed its processes because they used more memory than its limit. Reads a file.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        self.count("memory.events", "oom_kill")
    }

    /// How often its processes could not start another one because of its limit. Reads a file.
    #[must_use]
    pub fn processes_refused(&self) -> u64 {
        self.count("pids.events", "max")
    }

    fn count(&self, file: &str, name: &str) -> u64 {
        let Some(leaf) = self.leaf.as_ref().filter(|_| self.has_limits) else {
            return 0;
        };
        let text = fs::read_to_string(leaf.path.join(file)).unwrap_or_default();
        entry(&text, name).unwrap_or(0)
    }
}

impl Drop for ScriptCgroup {
    fn drop(&mut self) {
        let Some(leaf) = self.leaf.take() else { return };
        let kept = match *self.is_reusable.get_mut() {
            true => self.all.keep(leaf),
            false => Err(leaf),
        };
        if let Err(leaf) = kept {
            // With those that the script has made below it. Fails if a process cannot be ended; the next server removes it.
            remove_all(&leaf.path);
        }
    }
}

impl Leaf {
    fn has_processes(&self) -> bool {
        let mut buffer = [0; 128];
        let bytes = self.events.read_at(&mut buffer, 0).unwrap_or(0);
        let text = std::str::from_utf8(&buffer[..bytes]).unwrap_or_default();
        entry(text, "populated") == Some(1)
    }

    fn end(&self) -> Result<(), Survivors> {
        let began = Instant::now();
        terminate(&members(&self.path), |pid| members(&self.path).contains(&pid));
        while self.has_processes() {
            if began.elapsed() >= END_TIMEOUT {
                return Err(Survivors { pids: members(&self.path) });
            }
            kill_all(&self.path);
            self.await_change();
        }
        Ok(())
    }

    fn await_change(&self) {
        let round = Timespec::try_from(ROUND).ok();
        let _ = poll(&mut [PollFd::new(&self.events, PollFlags::PRI)], round.as_ref());
    }
}

impl NoCgroups {
    fn held() -> NoCgroups {
        NoCgroups("somebody holds the lock of the server's cgroup".into())
    }
}

/// Why this process cannot apply these limits, as far as that is known without changing anything; `None` if nothing is known to be missing.
#[must_use]
pub fn cgroup_problem(limits: &CgroupLimits) -> Option<NoCgroups> {
    let base = match base() {
        Ok(base) => base,
        Err(none) => return Some(none),
    };
    if let Err(error) = access(&base, Access::WRITE_OK) {
        let error = io::Error::from(error);
        return Some(NoCgroups(format!("none can be created in {}: {error}", base.display())));
    }
    limits
        .controllers()
        .into_iter()
        .find_map(|controller| missing(&base, controller))
}

/// The cgroup that contains the cgroups of this server.
fn base() -> Result<PathBuf, NoCgroups> {
    let own = own_cgroup().ok_or_else(|| NoCgroups("no cgroup2 file system is mounted".into()))?;
    Ok(match own.ends_with(SERVER) {
        // An earlier program of this process, or its parent, has moved it there.
        true => own.parent().unwrap_or(&own).to_owned(),
        false => own,
    })
}

/// Kills the processes of a cgroup: by `cgroup.kill` (Linux 5.14), or else one after the other.
fn kill_all(path: &Path) {
    if fs::write(path.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for pid in members(path).into_iter().filter_map(Pid::from_raw) {
        // The number may have passed to another process, which the kernel does not tell apart; it was read just now, and numbers are reused last.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The processes of a cgroup and of those below it.
fn members(path: &Path) -> Vec<i32> {
    let own = members_alone(path).into_iter().filter(|pid| *pid > 1);
    own.chain(below(path).iter().flat_map(|path| members(path))).collect()
}

fn below(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

/// Ends the processes of servers that are gone, and has their cgroups removed by a thread that may be lost, because somebody may hold them.
fn end_abandoned(base: &Path) {
    // That of the server's own processes; fails as long as there are some.
    let _ = fs::remove_dir(base.join(SERVER));
    let abandoned = OwnDirectory::abandoned(base, PREFIX);
    for abandoned in &abandoned {
        end_processes(&abandoned.path);
    }
    begin_elsewhere(LookupShare::CGROUPS, move || {
        abandoned.iter().for_each(|abandoned| _ = remove_all(&abandoned.path));
    });
}

/// Kills the processes of a cgroup and of those below it, and waits for their end. Gives up after a while.
fn end_processes(path: &Path) {
    let began = Instant::now();
    let has_processes = || {
        let text = fs::read_to_string(path.join("cgroup.events")).unwrap_or_default();
        entry(&text, "populated") == Some(1)
    };
    while has_processes() && began.elapsed() < END_TIMEOUT {
        kill_all(path);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Does something on a thread that may be lost. `None` if it has not ended after five seconds, because somebody holds the lock of a directory; it may go on.
fn in_time<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    look_elsewhere(LookupShare::CGROUPS, job).wait(LOCK_TIMEOUT).ok()
}

/// Removes a cgroup with those below it. False if one has processes.
fn remove_all(path: &Path) -> bool {
    let are_removed = below(path).iter().filter(|path| !remove_all(path)).count() == 0;
    are_removed && fs::remove_dir(path).map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

/// Why a controller is not there for the cgroups below this one; `None` if it is.
fn missing(path: &Path, controller: &str) -> Option<NoCgroups> {
    if lists(path, "cgroup.controllers", controller) {
        return None;
    }
    let why = match is_used_by_version_1(controller) {
        true => "is used by cgroups of version 1",
        false => "is not delegated",
    };
    Some(NoCgroups(format!(
        "controller {controller} {why} in {}",
        path.display()
    )))
}

fn lists(path: &Path, file: &str, controller: &str) -> bool {
    let text = fs::read_to_string(path.join(file)).unwrap_or_default();
    text.split_whitespace().any(|name| name == controller)
}

/// Enables a controller for the cgroups below this one.
fn enable(path: &Path, controller: &'static str) -> Result<(), NoCgroups> {
    if lists(path, "cgroup.subtree_control", controller) {
        return Ok(());
    }
    if let Some(missing) = missing(path, controller) {
        return Err(missing);
    }
    let enable = || fs::write(path.join("cgroup.subtree_control"), format!("+{controller}"));
    let enabled = enable().or_else(|error| {
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(error);
        }
        move_server(path)?;
        enable()
    });
    enabled.map_err(|error| {
        NoCgroups(format!(
            "controller {controller} cannot be enabled in {}: {error}",
            path.display()
        ))
    })
}

/// Moves the processes of this program out of a cgroup, which must have no others.
fn move_server(path: &Path) -> io::Result<()> {
    let pids = members_alone(path);
    // After an upgrade the older processes run a file that was replaced.
    let program = |pid: &str| {
        let path = fs::read_link(format!("/proc/{pid}/exe"))?;
        let bytes = path.as_os_str().as_bytes();
        io::Result::Ok(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes).to_owned())
    };
    let own = program("self")?;
    let is_own = |pid: &i32| program(&pid.to_string()).is_ok_and(|path| path == own);
    if !pids.iter().all(is_own) {
        return Err(io::Error::other("it has processes of other programs"));
    }
    let server = path.join(SERVER);
    // Whoever could open it could hold its lock.
    match DirBuilder::new().mode(0o700).create(&server) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created?,
    }
    pids.iter()
        .try_for_each(|pid| fs::write(server.join("cgroup.procs"), pid.to_string()))
}

/// The processes of a cgroup, without those below it.
fn members_alone(path: &Path) -> Vec<i32> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn is_used_by_version_1(controller: &str) -> bool {
    let text = fs::read_to_string("/proc/cgroups").unwrap_or_default();
    // Name, number of the hierarchy; 0 is that of version 2.
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(controller) && words.next().is_some_and(|number| number != "0")
    })
}

fn own_cgroup() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| in_mount(line, path))
}

/// The cgroup in one mount; `line` is that of /proc/self/mountinfo: `ID PARENT DEVICE ROOT TARGET OPTIONS … - TYPE …`.
fn in_mount(line: &str, path: &str) -> Option<PathBuf> {
    let (mount, kind) = line.split_once(" - ")?;
    kind.starts_with("cgroup2 ").then_some(())?;
    let mut words = mount.split(' ').skip(3);
    let (root, target) = (words.next()?, words.next()?);
    let below = Path::new(path).strip_prefix(root).ok()?;
    let joined = Path::new(target).join(below);
    joined.is_dir().then_some(joined)
}

/// The number after a name in a file of lines `NAME NUMBER`.
fn entry(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, FileMode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_whole_name() {
        let text = "low 1\noom 2\noom_kill 3\noom_group_kill 4\n";
        assert_eq!(entry(text, "oom"), Some(2));
        assert_eq!(entry(text, "oom_kill"), Some(3));
        assert_eq!(entry(text, "max"), None);
    }

    #[test]
    fn only_mounts_of_version_2_are_considered() {
        let line = "30 24 0:27 / / rw,nosuid shared:9 - cgroup2 cgroup2 rw";
        assert_eq!(in_mount(line, "/"), Some(PathBuf::from("/")));
        let container = "30 24 0:27 /docker/1 / rw - cgroup2 cgroup2 rw";
        assert_eq!(in_mount(container, "/docker/1/usr"), Some(PathBuf::from("/usr")));
        assert_eq!(in_mount(container, "/docker/2"), None);
        assert_eq!(in_mount("30 24 0:27 / / rw - cgroup cgroup rw", "/"), None);
    }
}
