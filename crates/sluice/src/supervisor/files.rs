//! Files that a supervisor makes as root for a server process with another user: logs, and the directory for what is kept.
//!
//! The server process opens them by their paths and needs permission for them, but not for their directories. A directory that others than root can write is
//! left alone: whoever can write it could put a link there, and root would give away another file. The server process makes its files there itself.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown, fchown, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use sluice_launch::Credentials;
use sluice_log::activity::FILE_NAME as STATE_FILE;
use sluice_script::script_users::search_path_of_another_user;
use sluice_settings::{Settings, User};
use sluice_tools::control::place;

use crate::path_checks::{PathChecks, SILENT};

/// The user of the server process, and what that process finds in its environment.
#[derive(Clone, Debug)]
pub(super) struct ServerUser {
    pub(super) user: User,
    state_directory: Option<PathBuf>,
}

impl ServerUser {
    /// The user of the server process by these settings. `None` if it is the supervisor's.
    pub(super) fn of(settings: &Settings) -> Option<ServerUser> {
        let user = settings.users.server.clone().filter(|_| sluice_launch::is_root())?;
        Some(ServerUser {
            user,
            state_directory: place::state_directory(&settings.state_directory),
        })
    }

    /// Variables for the server process, in place of those of root.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let home = self.user.home.clone().unwrap_or_else(|| "/".into());
        let login = self
            .user
            .login
            .clone()
            .unwrap_or_else(|| self.user.credentials.uid.to_string());
        let mut variables = vec![
            ("HOME", home.into_os_string()),
            ("USER", login.clone().into()),
            ("LOGNAME", login.into()),
            ("PATH", search_path_of_another_user()),
        ];
        let state = self.state_directory.clone().map(PathBuf::into_os_string);
        variables.extend(state.map(|directory| (place::STATE_VARIABLE, directory)));
        variables
    }

    /// Makes the files of the logs, and the directory for what is kept, for this user of the server process, if it has another one; on threads that may be
    /// lost. What cannot be made is reported by the server process, which then cannot open it.
    pub(super) async fn make_files_elsewhere(user: Option<&ServerUser>, settings: &Settings) {
        let Some(user) = user.cloned() else { return };
        let files: BTreeSet<&Path> = settings.log_files().chain(user.state_directory.as_deref()).collect();
        let files: Arc<[PathBuf]> = files.into_iter().map(Path::to_owned).collect();
        let make = move |path: &Path| match user.state_directory.as_deref() == Some(path) {
            true => user.make_directory(path),
            false => user.make_log(path),
        };
        let made = PathChecks::new(Arc::clone(&files), make).round().await;
        for (path, made) in files.iter().zip(made) {
            match made {
                Some(Ok(())) => {}
                Some(Err(error)) => tracing::debug!("{}: {error}", path.display()),
                None => tracing::error!("{}: {SILENT}", path.display()),
            }
        }
    }

    fn make_log(&self, file: &Path) -> io::Result<()> {
        const MODE: u32 = 0o640;
        let Some(path) = in_directory_of_root(file) else {
            return Ok(());
        };
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.append(true).mode(MODE).custom_flags(flags);
        // First one that is there: only making it needs the lock of the directory, which others can keep.
        let found = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match options.clone().create_new(true).open(&path)
            {
                Ok(made) => return self.give(&made),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(&path)?,
                Err(error) => return Err(error),
            },
            found => found?,
        };
        let about = found.metadata()?;
        // An earlier server of root has made it, or one with another user.
        match about.is_file() && about.nlink() == 1 && !self.may_write(&about) {
            true => self.give(&found),
            false => Ok(()),
        }
    }

    fn may_write(&self, about: &Metadata) -> bool {
        let Credentials { uid, gid, groups } = &self.user.credentials;
        let mask = match about {
            about if about.uid() == *uid => 0o200,
            about if about.gid() == *gid || groups.contains(&about.gid()) => 0o020,
            _ => 0o002,
        };
        about.mode() & mask != 0
    }

    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        let Some(path) = in_directory_of_root(directory) else {
            return Ok(());
        };
        if path.symlink_metadata().is_ok() {
            return self.take_over_directory(&path);
        }
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => chown(&path, Some(self.user.credentials.uid), Some(self.user.credentials.gid)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.take_over_directory(&path),
            Err(error) => Err(error),
        }
    }

    /// Gives a directory of root that has nothing but the file of an earlier server: with `User=root` in its unit, systemd gives the
    /// directory of `StateDirectory=` and all files in it to root at each start (systemd.exec(5)).
    fn take_over_directory(&self, path: &Path) -> io::Result<()> {
        let about = path.symlink_metadata()?;
        // Nobody but root can exchange the files in it meanwhile.
        if !about.is_dir() || about.uid() != 0 || about.mode() & 0o022 != 0 {
            return Ok(());
        }
        let mut files = Vec::new();
        for entry in path.read_dir()? {
            let entry = entry?;
            let is_own = entry.file_name().as_encoded_bytes().starts_with(STATE_FILE.as_bytes());
            let about = entry.metadata()?;
            if !is_own || !about.is_file() || about.nlink() != 1 {
                return Ok(());
            }
            files.push(entry.path());
        }
        for file in &files {
            lchown(file, Some(self.user.credentials.uid), Some(self.user.credentials.gid))?;
        }
        lchown(path, Some(self.user.credentials.uid), Some(self.user.credentials.gid))
    }

    fn give(&self, file: &File) -> io::Result<()> {
        fchown(file, Some(self.user.credentials.uid), Some(self.user.credentials.gid))
    }
}

/// The path without links in its directories, if only root can change them, and the links.
pub(crate) fn in_directory_of_root(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    if !sluice_launch::is_path_of_root(parent) {
        return None;
    }
    let parent = sluice_launch::directory_of_root(parent, sluice_launch::Others::Nothing)?;
    Some(parent.join(path.file_name().unwrap_or_default()))
}
