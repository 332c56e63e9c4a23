//! Trial starts of engines, for `check`: a library that is missing, or an interpreter that is too old, shows only when the program runs.
//!
//! An engine gets the end of its requests at once, so it ends with status 0 when it is ready (docs/reference/engine-protocol.md). It runs
//! as the user of its scripts, in `/`, without the limits of its route.

use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sluice_launch::{
    Exit, Launcher, Mailbox, ProcessLimits, Program, RunAs, Signal, Started, Stdin, end_session, kill_group, own_uid,
    reap,
};
use sluice_settings::permission::{Subject, Use, is_permitted};
use sluice_settings::{Engine, ScriptSettings, ScriptUser, Settings};

use crate::process::{default_environment, linker_advice, search_path_of_another_user};
use crate::program::engine::{Command, find, runner_of};

/// The time for one engine: an application that is large takes seconds to load.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The time for its end after SIGKILL.
const KILL_TIME: Duration = Duration::from_secs(2);

/// Bytes of its error output that are read.
const ERRORS_MAX: usize = 64 << 10;

/// Characters of the last line of its error output in a message.
const LINE_MAX: usize = 300;

/// The result of a trial that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialFailure {
    /// The engine cannot start: requests get 502.
    Fails {
        /// The place of the route in the configuration.
        origin: String,
        /// The cause, and what fixes it.
        message: String,
    },
    /// The time is over, and the engine has not ended: nothing is known.
    IsSlow(String),
}

/// Starts each engine of a configuration once, as the user of its scripts, in ten seconds each at most; `server` is the user of the server process.
pub fn failures(settings: &Settings, server: &Subject) -> Vec<TrialFailure> {
    let mut tried = HashSet::new();
    let mut failures = Vec::new();
    let routes = settings.sites.iter().flat_map(|site| &site.routes);
    for route in routes {
        // The engine of a root of its own is below it.
        let script = route.action.script().filter(|script| script.mode.has_engine());
        let Some(script) = script.filter(|script| script.confinement.chroot.is_none()) else {
            continue;
        };
        for engine in script.engines.all() {
            let Some((trial, user)) = Trial::new(engine, script, server) else {
                continue;
            };
            if tried.insert(trial.clone())
                && let Err(outcome) = trial.run(&user)
            {
                failures.push(outcome.failure(&route.origin, engine, &trial, &user));
            }
        }
    }
    failures
}

/// The program of an engine, and its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Trial {
    program: PathBuf,
    arguments: Vec<OsString>,
    file: PathBuf,
    environment: Vec<(String, OsString)>,
    uid: u32,
}

/// The way in which a trial did not succeed.
enum Outcome {
    Refused(String),
    Ended(Exit, String),
    InTime,
}

impl Trial {
    /// The trial of an engine of a route. `None` if the engine or its user is missing, which has been reported.
    fn new(engine: &Engine, script: &ScriptSettings, server: &Subject) -> Option<(Trial, Subject)> {
        let Command { program, arguments, file } = find(engine, &script.engines).ok()?;
        let user = match &script.confinement.user {
            ScriptUser::Named(user) => Subject::of(user),
            // The owners of scripts are not known before there is a request.
            ScriptUser::Usual | ScriptUser::Owner => server.clone(),
            ScriptUser::Unknown { .. } => return None,
        };
        let is_other = user.uid() != own_uid();
        let mut environment: Vec<(String, OsString)> = Vec::new();
        if is_other {
            environment.push(("PATH".to_owned(), search_path_of_another_user()));
            environment.push(("HOME".to_owned(), "/".into()));
        }
        let inherited = script.variables.inherited.iter();
        let inherited = inherited.filter_map(|name| Some((name.clone(), std::env::var_os(name)?)));
        let added = script.variables.added.iter();
        environment.extend(added.map(|(name, value)| (name.clone(), value.into())));
        environment.extend(inherited);
        let shared = default_environment().iter();
        environment.extend(shared.map(|(name, value)| ((*name).to_owned(), OsStr::from_bytes(value).to_owned())));
        environment.push(("SCRIPT_RTE".to_owned(), engine.name().into()));
        for (name, value) in [
            ("CGIPLUSIN", "/dev/fd/3"),
            ("CGIPLUSEOF", "end"),
            ("CGIPLUSESC", "escape"),
            ("CGIPLUSEOT", "close"),
        ] {
            environment.push((name.to_owned(), value.into()));
        }
        // Of two with one name the first counts.
        let mut names = HashSet::new();
        environment.retain(|(name, _)| names.insert(name.clone()));
        let runner = runner_of(engine).filter(|_| script.engines.virtualenv.is_none());
        let program = match runner.filter(|_| is_other) {
            // As a server of the other user finds it, whose search path has no directories of this user.
            Some(runner) => {
                let directories = search_path_of_another_user();
                let mut paths = std::env::split_paths(&directories).map(|directory| directory.join(runner));
                let is_usable = |path: &PathBuf| path.is_file() && is_permitted(path, Use::Execute, &user);
                paths.find(is_usable).unwrap_or(program)
            }
            None => program,
        };
        let trial = Trial {
            program,
            arguments,
            file,
            environment,
            uid: user.uid(),
        };
        Some((trial, user))
    }

    fn run(&self, user: &Subject) -> Result<(), Outcome> {
        let refused = |error: &dyn std::fmt::Display| Outcome::Refused(error.to_string());
        let program = self.program(user).ok_or_else(|| refused(&"a NUL in its command"))?;
        let launcher = Launcher::start(1).map_err(|error| refused(&error))?;
        let (sender, receiver) = mpsc::channel();
        launcher.launch(program, move |result| drop(sender.send(result)));
        let started = match receiver.recv_timeout(TIME_MAX) {
            Ok(Ok(started)) => started,
            Ok(Err(error)) => return Err(refused(&error)),
            Err(_) => return Err(Outcome::InTime),
        };
        match watch(started) {
            Some((Exit::Code(0), _)) => Ok(()),
            Some((exit, errors)) => Err(Outcome::Ended(exit, errors)),
            None => Err(Outcome::InTime),
        }
    }

    fn program(&self, user: &Subject) -> Option<Program> {
        let text = |text: &OsStr| CString::new(text.as_bytes()).ok();
        let words = [self.program.as_os_str()].into_iter();
        let words = words.chain(self.arguments.iter().map(OsString::as_os_str));
        let mut environment = Vec::new();
        for (name, value) in &self.environment {
            environment.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        let is_other = self.uid != own_uid();
        Some(Program {
            path: text(self.program.as_os_str())?,
            arguments: words.map(text).collect::<Option<_>>()?,
            environment,
            directory: text(OsStr::new("/"))?,
            stdin: Stdin::Pipe,
            mailbox: Mailbox::Stream,
            memory: None,
            is_kept: false,
            run_as: RunAs::Usual,
            credentials: is_other.then(|| user.credentials().clone()),
            limits: ProcessLimits::default(),
            confinement: None,
        })
    }

    fn command(&self) -> String {
        match self.program == self.file {
            true => self.program.display().to_string(),
            false => format!("{} {}", self.program.display(), self.file.display()),
        }
    }
}

/// Has a process see the end of its requests, and waits for its end. Returns its exit and the last line of its errors; `None` if it takes too long.
fn watch(started: Started) -> Option<(Exit, String)> {
    let (pid, pidfd, stderr) = (started.pid, started.pidfd, started.stderr);
    drop((started.stdin, started.cgiplusin));
    let until = Instant::now() + TIME_MAX;
    let mut errors = Vec::new();
    let has_ended = wait_end(&pidfd, &stderr, &mut errors, until);
    if !has_ended {
        // Its end is reported as slow.
        let _ = kill_group(pid, Signal::Kill);
        wait_end(&pidfd, &stderr, &mut errors, Instant::now() + KILL_TIME);
    }
    drop(started.mailbox);
    let _ = end_session(pid, "");
    let exit = reap(pidfd.as_fd()).ok().flatten();
    exit.filter(|_| has_ended).map(|exit| (exit, last_line(&errors)))
}

/// Reads the errors of a process until it has ended. False if it has not by then.
fn wait_end(pidfd: &impl AsFd, stderr: &impl AsFd, errors: &mut Vec<u8>, until: Instant) -> bool {
    let mut is_open = true;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut waited = vec![PollFd::new(pidfd, PollFlags::IN)];
        if is_open {
            waited.push(PollFd::new(stderr, PollFlags::IN));
        }
        let Ok(timeout) = Timespec::try_from(left) else {
            return false;
        };
        match poll(&mut waited, Some(&timeout)) {
            Ok(1..) | Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return false,
        }
        let has_ended = !waited[0].revents().is_empty();
        let has_errors = waited.get(1).is_some_and(|errors| !errors.revents().is_empty());
        while has_errors && is_open {
            let mut chunk = [0; 4096];
            match rustix::io::read(stderr, &mut chunk[..]) {
                Ok(0) => is_open = false,
                Ok(count) if errors.len() < ERRORS_MAX => errors.extend_from_slice(&chunk[..count]),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(_) => is_open = false,
            }
        }
        if has_ended {
            return true;
        }
    }
}

fn last_line(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or_default().trim().chars().take(LINE_MAX).collect()
}

impl Outcome {
    fn failure(self, origin: &str, engine: &Engine, trial: &Trial, user: &Subject) -> TrialFailure {
        let (name, user, command) = (engine.name(), user.name(), trial.command());
        let why = match self {
            Outcome::Refused(error) => error,
            Outcome::Ended(exit, line) => {
                let advice = advice(engine, &trial.program, &line);
                // The message has the program already.
                let prefix = format!("{}: ", trial.program.display());
                let line = line.strip_prefix(&prefix).unwrap_or(&line);
                match line.is_empty() {
                    true => exit.to_string(),
                    false => format!("{exit}, {line}{advice}"),
                }
            }
            Outcome::InTime => {
                return TrialFailure::IsSlow(format!(
                    "{origin}: the engine of {name} ({command}) as {user} has not ended within {} seconds after the end of its requests: check it by a \
                     request",
                    TIME_MAX.as_secs()
                ));
            }
        };
        TrialFailure::Fails {
            origin: origin.to_owned(),
            message: format!("the engine of {name} does not start as {user} ({command}): {why}"),
        }
    }
}

/// The command that fixes what the last line of an engine's errors says.
fn advice(engine: &Engine, program: &Path, line: &str) -> String {
    match engine {
        Engine::Php => linker_advice(line).map_or_else(String::new, |advice| format!(": {advice}")),
        Engine::Python if line.contains("needs Python") => format!(
            " Name a newer one: virtualenv = \"DIR\" beside engine, with DIR made by python3 -m venv; or put it before {} in PATH",
            program.display()
        ),
        Engine::Python if line.contains("No module named") => {
            ": apt install python3 (python3-minimal has no library)".to_owned()
        }
        Engine::Perl if line.contains("Can't locate") => ": apt install perl (perl-base has few modules)".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_that_of_the_engine() {
        let path = Path::new("/usr/bin/python3.8");
        let line = "sluice-php: error while loading shared libraries: libphp8.2.so: cannot open shared object file: No such file or directory";
        assert!(advice(&Engine::Php, path, line).starts_with(": apt install libphp8.2-embed;"));
        let line = "The Python engine needs Python 3.9 or newer; this is 3.8.";
        assert!(advice(&Engine::Python, path, line).contains("virtualenv = "));
        assert_eq!(advice(&Engine::Perl, path, line), "");
    }

    #[test]
    fn the_last_line_that_is_not_empty_counts() {
        assert_eq!(last_line(b"Traceback\n  File\nValueError: x\n \n"), "ValueError: x");
        assert_eq!(last_line(b""), "");
    }
}
