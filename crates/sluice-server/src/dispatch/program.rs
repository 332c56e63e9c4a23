//! The file of a script: whether it can be run, and the fault if it cannot.

use std::borrow::Cow;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_files::foreign::{Links, is_left, leaves_path, metadata};
use sluice_files::links::refused_link;
use sluice_files::missing_directory::missing_directory;
use sluice_http::fault::{
    Absent, Activity, ClientFault, Fault, Forbidden, IoFailure, NotExecutable, ScriptFault, ServerFault,
};
use sluice_http::path_text::text_of_path;
use sluice_script::program::engine::{ENGINE_STAMP, EngineProgram};
use sluice_script::program::stamp::Stamp;
use sluice_script::route::{Script, ScriptRoute};
use sluice_settings::ScriptUser;
use sluice_settings::permission::{Use, denial_of_script, explained, is_permitted_by_bits};

pub(super) enum Runner {
    Itself,
    Interpreter(PathBuf),
    /// One of the engines of its route, if they run such a file.
    Engine(Option<Arc<EngineProgram>>),
}

impl Runner {
    pub(super) fn of_found_file(route: &ScriptRoute, file: &Path, metadata: &Metadata) -> Runner {
        let name = name_of(file);
        if route.settings.mode.has_engine() {
            let is_executable = metadata.mode() & 0o111 != 0;
            return Runner::Engine(route.engines.of_found_file(&name, is_executable).cloned());
        }
        Runner::interpreter(route, &name)
    }

    pub(super) fn of_named_file(route: &ScriptRoute, file: &Path) -> Runner {
        let name = name_of(file);
        match route.settings.mode.has_engine() {
            true => Runner::Engine(route.engines.of_named_file(&name).cloned()),
            false => Runner::interpreter(route, &name),
        }
    }

    /// The runner of a script among files, by its suffix in lower case.
    pub(super) fn of_suffix(route: &ScriptRoute, suffix: &str) -> Runner {
        if route.settings.mode.has_engine() {
            return Runner::Engine(route.engines.of_suffix(suffix).cloned());
        }
        let mut interpreters = route.interpreters.iter();
        match interpreters.find(|(other, _)| other == suffix) {
            Some((_, program)) => Runner::Interpreter(program.clone()),
            None => Runner::Itself,
        }
    }

    fn interpreter(route: &ScriptRoute, name: &str) -> Runner {
        let mut interpreters = route.interpreters.iter();
        match interpreters.find(|(suffix, _)| name.ends_with(suffix.as_str())) {
            Some((_, program)) => Runner::Interpreter(program.clone()),
            None => Runner::Itself,
        }
    }
}

fn name_of(file: &Path) -> Cow<'_, str> {
    text_of_path(Path::new(file.file_name().unwrap_or_default()))
}

/// Checks that the file can be run: by its engine, its interpreter, or by itself, and by the user of the route's scripts.
pub(super) fn check(
    file: PathBuf,
    runner: Runner,
    name: &str,
    rest: &str,
    metadata: &Metadata,
    user: &ScriptUser,
) -> Result<Script, Fault> {
    let refuse = |problem| {
        let file = file.as_path().into();
        Err(ScriptFault::NotExecutable { file, problem }.into())
    };
    if !metadata.is_file() {
        return refuse(NotExecutable::NotAFile);
    }
    let (interpreter, engine) = match runner {
        Runner::Itself if metadata.mode() & 0o111 == 0 => return refuse(NotExecutable::NoExecutePermission),
        Runner::Engine(None) => return refuse(NotExecutable::NoEngine),
        Runner::Itself => (None, None),
        Runner::Interpreter(program) => (Some(program), None),
        Runner::Engine(engine) => (None, engine),
    };
    if let ScriptUser::Unknown { fault, .. } = user {
        return Err(ServerFault::Closed(fault.as_str().into()).into());
    }
    if let ScriptUser::Named(user) = user {
        let wanted = match interpreter.is_none() && engine.is_none() {
            true => Use::Execute,
            false => Use::Read,
        };
        if !is_permitted_by_bits(metadata, wanted, user) && leaves_path(&file) {
            return Err(unanswered(&file));
        }
        if let Some(denial) = denial_of_script(&file, metadata, wanted, user) {
            let error = io::Error::new(ErrorKind::PermissionDenied, denial);
            let failure = IoFailure::shared(Activity::Script(file.as_path().into()), error);
            return Err(ClientFault::Forbidden(Forbidden::Unreadable(failure)).into());
        }
    }
    Ok(Script {
        name: name.to_owned(),
        path_info: (!rest.is_empty()).then(|| rest.to_owned()),
        interpreter,
        // An engine compiles a changed script again itself.
        stamp: engine.as_ref().map_or_else(|| Stamp::of(metadata), |_| ENGINE_STAMP),
        engine,
        file,
    })
}

pub(super) fn stat(file: &Path) -> Result<Metadata, Fault> {
    metadata(file, Links::Followed).map_err(|error| fault_of(file, error))
}

/// The fault for a script that the system does not find (the client's, 404), refuses (403), or cannot reach (the server's). A directory of
/// the configuration that does not exist is the server's, too (503).
pub(super) fn fault_of(file: &Path, error: io::Error) -> Fault {
    if let Some(missing) = missing_directory(&error) {
        return missing.into();
    }
    if let Some(absent) = refused_link(&error) {
        return ClientFault::NotFound(absent).into();
    }
    if is_left(&error) {
        return unanswered(file);
    }
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => not_found(file),
        ErrorKind::PermissionDenied if leaves_path(file) => unanswered(file),
        ErrorKind::PermissionDenied => {
            let error = explained(file, Use::Execute, error);
            let failure = IoFailure::shared(Activity::Script(file.into()), error);
            ClientFault::Forbidden(Forbidden::Unreadable(failure)).into()
        }
        _ => ServerFault::io(Activity::Script(file.into()), error).into(),
    }
}

fn unanswered(file: &Path) -> Fault {
    ServerFault::Unanswered(text_of_path(file).into()).into()
}

/// The client's fault: there is no such script.
pub(super) fn not_found(file: &Path) -> Fault {
    ClientFault::NotFound(Absent::Script(file.into())).into()
}
