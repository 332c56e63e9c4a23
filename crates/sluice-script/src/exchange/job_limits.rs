//! The confinement of a script process, from the settings of its route: what the launcher needs to know.

use std::borrow::Cow;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_http::fault::Fault;
use sluice_launch::{self as launch, ProcessLimits, RunAs};
use sluice_settings::{ScriptLimits, ScriptSource, ScriptUser};

use crate::exchange::{Job, c_string, present};

impl Job {
    pub(crate) fn limits(&self) -> ProcessLimits {
        let limits = self.settings().confinement.limits;
        ProcessLimits {
            open_files_max: limits.open_files_max.or(self.scripts.open_files_max),
            ..limits
        }
    }

    /// The user whom the settings name for a process; the launcher decides.
    pub(crate) fn run_as(&self) -> Result<RunAs, Fault> {
        Ok(match &self.settings().confinement.user {
            ScriptUser::Usual => RunAs::Usual,
            ScriptUser::Named(user) => RunAs::User(user.name.clone()),
            // The launcher refuses it.
            ScriptUser::Unknown { name, .. } => RunAs::User(name.clone()),
            ScriptUser::Owner => RunAs::Owner(c_string(&self.script.file)?),
        })
    }

    /// The restrictions of a process besides its resource limits; `None` if the route has none.
    pub(crate) fn confinement(&self) -> Result<Option<Arc<launch::Confinement>>, Fault> {
        let Some(confinement) = &self.route.confinement else {
            return Ok(None);
        };
        let files = match &confinement.files {
            Some(files) => Some(launch::FileRules {
                read: c_strings(files.read.iter().cloned().chain(self.own_files()))?,
                write: c_strings(files.write.iter().cloned())?,
            }),
            None => None,
        };
        Ok(Some(Arc::new(launch::Confinement {
            nice: confinement.nice,
            io_priority: confinement.io_priority,
            umask: confinement.umask,
            has_private_tmp: confinement.has_private_tmp,
            covers_tmp: !self.own_files().iter().any(|file| is_in_tmp(file)),
            chroot: confinement.chroot.as_ref().map(c_string).transpose()?,
            files,
            is_offline: confinement.is_offline,
            cgroup: confinement.cgroup,
        })))
    }

    /// A path as a process sees it: below its root.
    pub(crate) fn inside<'a>(&self, path: &'a Path) -> std::borrow::Cow<'a, Path> {
        let confinement = self.route.confinement.as_ref();
        inside(confinement.and_then(|confinement| confinement.chroot.as_deref()), path)
    }

    /// The files of the program itself, which it may read without being named: its directory, interpreter and engine.
    fn own_files(&self) -> Vec<PathBuf> {
        let settings = self.settings();
        let mut files = vec![self.directory().to_owned()];
        match &settings.source {
            ScriptSource::Directory(directory) | ScriptSource::App { directory, .. } => files.push(directory.clone()),
            // An engine runs other scripts among the files later.
            ScriptSource::Root if self.script.engine.is_some() => files.push(self.map.document_root().to_owned()),
            ScriptSource::File(_) | ScriptSource::Root => {}
        }
        files.extend(self.script.file.parent().map(Path::to_owned));
        // One that is missing has no path yet.
        let interpreter = self.script.interpreter.as_deref().and_then(|path| present(path).ok());
        files.extend(interpreter.map(Cow::into_owned));
        files.extend(settings.engines.virtualenv.clone());
        if let Some(Ok(command)) = self.script.engine.as_ref().map(|engine| engine.command()) {
            files.push(command.program.clone());
            files.extend(command.file.parent().map(Path::to_owned));
        }
        files.iter().map(|file| self.inside(file).into_owned()).collect()
    }
}

/// The confinement of a route; `None` if it restricts nothing.
pub fn of_route(confinement: &ScriptLimits) -> Option<Arc<ScriptLimits>> {
    (*confinement != ScriptLimits::default()).then(|| Arc::new(confinement.clone()))
}

fn inside<'a>(root: Option<&Path>, path: &'a Path) -> std::borrow::Cow<'a, Path> {
    let below = root.and_then(|root| path.strip_prefix(root).ok());
    match below {
        Some(below) => Path::new("/").join(below).into(),
        None => path.into(),
    }
}

fn is_in_tmp(file: &Path) -> bool {
    ["/tmp", "/var/tmp"].iter().any(|shared| file.starts_with(shared))
}

fn c_strings(paths: impl Iterator<Item = PathBuf>) -> Result<Vec<CString>, Fault> {
    paths
        .map(|path| c_string(std::ffi::OsStr::from_bytes(path.as_os_str().as_bytes())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_root_begin_there() {
        let root = Some(Path::new("/srv/jail"));
        for (root, path, expected) in [
            (root, "/srv/jail/cgi-bin/a", "/cgi-bin/a"),
            (root, "/srv/jail", "/"),
            (root, "/srv/jailed/a", "/srv/jailed/a"),
            (root, "/usr/bin/python3", "/usr/bin/python3"),
            (None, "/srv/jail/a", "/srv/jail/a"),
        ] {
            assert_eq!(inside(root, Path::new(path)), Path::new(expected));
        }
    }
}
