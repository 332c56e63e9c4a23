//! Preparations for a confined start, made before the clone, because the child only makes system calls.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::confine::cgroup::{Cgroups, ScriptCgroup};
use crate::confine::confinement::Confinement;
use crate::confine::file_rules::PreparedRules;
use crate::confine::priority::Priority;
use crate::confine::root_and_tmp::{PrivateTmp, may_mount};
use crate::confine::temporary::{TemporaryDirectories, TemporaryDirectory};
use crate::start::launch_error::{LaunchError, Stage};
use crate::start::program::Program;
use crate::users::own_user::own_uid;

/// Where programs put temporary files if they do not ask for TMPDIR. The first one must exist.
const SHARED: [&str; 2] = ["/tmp", "/var/tmp"];

/// Cgroups and temporary directories for the processes of all starts.
#[derive(Debug)]
pub(crate) struct Means {
    /// `None` if the server has no cgroups.
    pub(crate) cgroups: Option<Arc<Cgroups>>,
    pub(crate) temporary: TemporaryDirectories,
}

/// The resources of one start besides its channels.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) cgroup: Option<ScriptCgroup>,
    members_file: Option<CString>,
    pub(crate) temporary: Option<Temporary>,
    pub(crate) confinement: Arc<Confinement>,
}

/// A directory for temporary files, and where its process finds it.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub(crate) directory: TemporaryDirectory,
    path: CString,
    /// The directories whose place it takes; empty if it is not mounted.
    targets: Vec<CString>,
    /// `TMPDIR=…` and a NUL.
    pub(crate) variable: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Pointers<'a> {
    targets: Vec<&'a CStr>,
    writable: Vec<&'a CStr>,
}

impl Prepared {
    /// Creates what the program needs. A program without confinement has a cgroup if the server has cgroups, and nothing else.
    pub(crate) fn new(program: &Program, means: &Means) -> Result<Prepared, LaunchError> {
        static NONE: LazyLock<Arc<Confinement>> = LazyLock::new(Arc::default);
        let confinement = program.confinement.as_ref().unwrap_or(&NONE);
        let limits = confinement.cgroup;
        let uid = program.credentials.as_ref().map_or_else(own_uid, |user| user.uid);
        let cgroup = match &means.cgroups {
            Some(cgroups) => match cgroups.take(&limits, uid) {
                Err(error) if limits.is_any() => return Err(LaunchError::of(Stage::Cgroup, &error)),
                // Its descendants are found without.
                taken => taken.ok(),
            },
            None if limits.is_any() => return Err(LaunchError::of(Stage::Cgroup, &io::ErrorKind::Unsupported.into())),
            None => None,
        };
        let temporary = confinement
            .has_private_tmp
            .then(|| Temporary::new(program, confinement, &means.temporary));
        let temporary = temporary
            .transpose()
            .map_err(|error| LaunchError::of(Stage::PrivateTmp, &error))?;
        Ok(Prepared {
            members_file: cgroup.as_ref().and_then(ScriptCgroup::members_file),
            cgroup,
            temporary,
            confinement: Arc::clone(confinement),
        })
    }

    /// Whether the process may be started without its cgroup: it has no limits, and its descendants are found without.
    pub(crate) fn can_do_without_cgroup(&self) -> bool {
        !self.confinement.cgroup.is_any()
    }

    /// The cgroup, and the file by which a process moves there.
    pub(crate) fn cgroup(&self) -> Option<(std::os::fd::BorrowedFd<'_>, &CStr)> {
        Some((self.cgroup.as_ref()?.directory()?, self.members_file.as_deref()?))
    }

    pub(crate) fn pointers(&self) -> Pointers<'_> {
        let Some(temporary) = &self.temporary else {
            return Pointers::default();
        };
        let targets: Vec<&CStr> = temporary.targets.iter().map(CString::as_c_str).collect();
        Pointers {
            writable: match targets.is_empty() {
                true => vec![&temporary.path],
                // They are opened below the new root.
                false => vec![c"/tmp", c"/var/tmp"],
            },
            targets,
        }
    }

    pub(crate) fn private_tmp<'a>(&'a self, pointers: &'a Pointers<'_>) -> Option<PrivateTmp<'a>> {
        let temporary = self
            .temporary
            .as_ref()
            .filter(|temporary| !temporary.targets.is_empty())?;
        Some(PrivateTmp {
            directory: &temporary.path,
            targets: &pointers.targets,
        })
    }

    pub(crate) fn chroot(&self) -> Option<&CStr> {
        self.confinement.chroot.as_deref()
    }

    pub(crate) fn priority(&self) -> Priority {
        Priority::prepare(self.confinement.nice, self.confinement.io_priority)
    }

    pub(crate) fn file_rules<'a>(
        &'a self,
        pointers: &'a Pointers<'_>,
    ) -> Result<Option<PreparedRules<'a>>, LaunchError> {
        let Some(rules) = &self.confinement.files else {
            return Ok(None);
        };
        let prepared = rules.prepare(&pointers.writable);
        prepared
            .map(Some)
            .ok_or(LaunchError { stage: Stage::FileRules, errno: libc::ENOSYS })
    }
}

impl Temporary {
    fn new(program: &Program, confinement: &Confinement, all: &TemporaryDirectories) -> io::Result<Temporary> {
        static MAY_MOUNT: LazyLock<bool> = LazyLock::new(may_mount);
        let is_shared = own_uid() == 0 && confinement.covers_tmp;
        if (confinement.chroot.is_some() || is_shared) && !*MAY_MOUNT {
            // It would be outside of its root, or the machine's /tmp would be open to it although it is said that it is not.
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let directory = all.create(program.credentials.as_ref())?;
        let path = c_string(directory.path())?;
        let targets = match *MAY_MOUNT && confinement.covers_tmp {
            true => targets(confinement)?,
            false => Vec::new(),
        };
        let seen = if targets.is_empty() { path.as_bytes() } else { b"/tmp" };
        let variable = [b"TMPDIR=", seen, b"\0"].concat();
        Ok(Temporary { directory, path, targets, variable })
    }
}

fn targets(confinement: &Confinement) -> io::Result<Vec<CString>> {
    let root = confinement.chroot.as_deref().unwrap_or(c"/");
    let root = Path::new(OsStr::from_bytes(root.to_bytes()));
    let below = SHARED.iter().map(|shared| root.join(shared.trim_start_matches('/')));
    below.map(|path| c_string(&path)).collect()
}

fn c_string(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
