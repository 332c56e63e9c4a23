//! The file of a script: whether it can be run, and the fault if it cannot.
//!
//! Not here: which file a path names (`locate`, `suffix_scripts`).

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sluice_files::directory::missing_directory;
use sluice_files::links::refused_link;
use sluice_http::fault::{
    Absent, Activity, ClientFault, Fault, Forbidden, IoFailure, NotExecutable, ScriptFault, ServerFault,
};
use sluice_script::route::{Script, Stamp};

/// Checks that the file can be run: by its interpreter, or by itself.
pub(super) fn check(
    file: PathBuf,
    interpreter: Option<PathBuf>,
    name: &str,
    rest: &str,
    metadata: &Metadata,
) -> Result<Script, Fault> {
    let refuse = |problem| {
        let file = file.as_path().into();
        Err(ScriptFault::NotExecutable { file, problem }.into())
    };
    if !metadata.is_file() {
        return refuse(NotExecutable::NotAFile);
    }
    if interpreter.is_none() && metadata.mode() & 0o111 == 0 {
        return refuse(NotExecutable::NoExecutePermission);
    }
    Ok(Script {
        name: name.to_owned(),
        path_info: (!rest.is_empty()).then(|| rest.to_owned()),
        interpreter,
        stamp: Stamp::of(metadata),
        file,
    })
}

/// What the system says about the file of a script; the fault if it says nothing.
pub(super) fn stat(file: &Path) -> Result<Metadata, Fault> {
    std::fs::metadata(file).map_err(|error| fault_of(file, error))
}

/// The fault for a script that the system does not find (the client's, 404), refuses (403), or cannot reach (the server's). A directory of
/// the configuration that does not exist is the server's, too (503).
pub(super) fn fault_of(file: &Path, error: io::Error) -> Fault {
    if let Some(missing) = missing_directory(&error) {
        return ServerFault::Missing(missing.into()).into();
    }
    if let Some(absent) = refused_link(&error) {
        return ClientFault::NotFound(absent).into();
    }
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => not_found(file),
        ErrorKind::PermissionDenied => {
            let failure = IoFailure::shared(Activity::Script(file.into()), error);
            ClientFault::Forbidden(Forbidden::Unreadable(failure)).into()
        }
        _ => ServerFault::io(Activity::Script(file.into()), error).into(),
    }
}

/// The client's fault: there is no such script.
pub(super) fn not_found(file: &Path) -> Fault {
    ClientFault::NotFound(Absent::Script(file.into())).into()
}
