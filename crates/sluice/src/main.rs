//! The program: from the command line to a running server and an exit status.

mod arguments;
mod certificates;
mod check;
mod check_process;
mod control;
mod demo;
mod explain;
mod exposed;
mod first_process;
mod launcher_role;
mod link;
mod log_files;
mod log_permissions;
#[cfg(test)]
mod manual;
mod path_checks;
mod rate;
mod rte_directory;
mod served_directories;
mod server_log;
mod server_role;
mod signals;
mod stream_lf;
mod supervisor;
mod users;

use std::io::Write;
use std::process::ExitCode;

use sluice_http::escape::escaped_lines;
use sluice_report::command::Command as Order;
use sluice_tools::control::client::{self, CommandOptions};
use sluice_tools::control::{Caller, watch_client};
use sluice_tools::top;

use crate::arguments::{Command, End, LogCommand, Retire};
use crate::server_log::Logger;
use crate::supervisor::Passed;

/// Variables of scripts and responses are many short-lived allocations, for which this allocator is faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CALLER: Caller = Caller { print, named_socket: sluice_config::control_socket };

fn main() -> ExitCode {
    if first_process::is_first() {
        return run_first();
    }
    // Before anything else is opened, because what systemd has passed is known by the numbers of its descriptors.
    let passed = Passed::take();
    // Otherwise a process that was started by /proc/self/exe would be called "exe". Fails only without /proc.
    let _ = std::fs::write("/proc/self/comm", "sluice");
    // Before the first thread, because threads inherit the signals that are blocked.
    let prepared = sluice_launch::prepare_process();
    let logger = Logger::start();
    if let Err(error) = prepared {
        tracing::warn!("the process cannot be protected from its scripts: {error}");
    }
    let role = std::env::args_os().next().and_then(|name| name.into_string().ok());
    match role.as_deref() {
        Some(supervisor::SERVER_NAME) => return end(server_role::run_supervised(&logger), logger),
        Some(launcher_role::LAUNCHER_NAME) => return end(launcher_role::run(), logger),
        Some(check_process::CHECK_NAME) => return check(logger),
        Some(supervisor::READER_NAME) => return end(supervisor::run_reader(), logger),
        Some(supervisor::TRIAL_NAME) => return end(server_role::run_trial(supervisor::check_left), logger),
        _ => {}
    }
    let takes_over = role.as_deref() == Some(supervisor::SUPERVISOR_NAME);
    let result = match arguments::parse().command {
        Command::Run(run) if takes_over => {
            let file = run.config.path();
            file.and_then(|file| supervisor::take_over(file, &logger))
                .map(|()| ExitCode::SUCCESS)
        }
        command => run(command, passed, &logger),
    };
    end(result, logger)
}

/// Runs as process 1 of a container, with the server in a child.
fn run_first() -> ExitCode {
    let prepared = sluice_launch::prepare_process().map_err(|error| error.to_string());
    let result = prepared.and_then(|()| first_process::run());
    result.unwrap_or_else(|message| {
        print_failure(&message);
        ExitCode::FAILURE
    })
}

/// The end of the program: an error is printed.
fn end(result: Result<ExitCode, String>, logger: Logger) -> ExitCode {
    if let Err(message) = &result {
        logger.record_failure(message);
    }
    // A thread writes the log: its pending lines come before the last message.
    drop(logger);
    match result {
        Ok(code) => code,
        Err(message) => {
            print_failure(&message);
            ExitCode::FAILURE
        }
    }
}

/// Prints why the program fails: the last lines on standard error.
fn print_failure(message: &str) {
    let text = server_log::failure_text(&escaped_lines(message));
    // Nobody may read it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn run(command: Command, passed: Passed, logger: &Logger) -> Result<ExitCode, String> {
    let done = match command {
        Command::Serve(serve) => {
            refuse_root(serve.allow_root)?;
            let settings = sluice_launch::deadline::with_deadline(|| {
                let settings = serve.settings()?;
                serve.warn(&settings);
                Ok::<_, String>(settings)
            })?;
            server_role::run(settings, logger)
        }
        Command::Run(run) => supervisor::run(run.config.path()?, run.allow_root, passed, logger),
        Command::Check(check) => {
            if let Some(code) = check_process::run() {
                return Ok(code);
            }
            return check::run(&check).map(exit_code);
        }
        Command::Demo(demo) => {
            refuse_root(demo.allow_root || demo.addresses.are_local())?;
            let site = demo::Site::unpack(demo.sdk()?)?;
            let settings = demo.addresses.serve(site.site(demo.addresses.default_detail()))?;
            server_role::run(settings, logger)
        }
        Command::Workout(workout) => return sluice_tools::workout::run(&workout, print),
        Command::Status(options) => return ask(&Order::Status, &options),
        Command::Reload(options) => return ask(&Order::Reload, &options),
        Command::Upgrade(options) => return ask(&Order::Upgrade, &options),
        Command::Drain(options) => return ask(&Order::Drain, &options),
        Command::Purge(options) => return ask(&Order::Purge, &options),
        Command::Retire(Retire { script, options }) => return ask(&Order::Retire { script }, &options),
        Command::End(End { id, options }) => return ask(&Order::End { id }, &options),
        Command::Log(LogCommand::Reopen(options)) | Command::ReopenLogs(options) => {
            return ask(&Order::ReopenLogs, &options);
        }
        Command::Top(options) => return top::run(&options, CALLER),
        Command::Watch(options) => return watch_client::run(&options, CALLER),
        Command::Passwd(change) => return sluice_tools::passwd::run(&change, print),
        Command::Rate(options) => sluice_tools::rate::run(&options, &rate::ThisProgram, print),
        Command::StreamLf(files) => stream_lf::run(&files, print),
        Command::Reference => print(&sluice_config::reference()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Checks a configuration in a process that may be lost, and says what has come of it.
fn check(logger: Logger) -> ExitCode {
    let result = match arguments::parse().command {
        Command::Check(check) => check::run(&check),
        _ => Err("this is started by `sluice check`, not by hand".to_owned()),
    };
    let is_valid = matches!(result, Ok(true));
    let code = end(result.map(exit_code), logger);
    check_process::say(is_valid);
    code
}

fn exit_code(is_done: bool) -> ExitCode {
    match is_done {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn ask(command: &Order, options: &CommandOptions) -> Result<ExitCode, String> {
    client::run(command, options, CALLER).map(exit_code)
}

/// Refuses to run a server as root without consent, because there is no change of user.
fn refuse_root(is_allowed: bool) -> Result<(), String> {
    if is_allowed || !sluice_launch::is_root() {
        return Ok(());
    }
    Err(users::ROOT_REFUSED_WITHOUT_CONFIGURATION.to_owned())
}

/// Prints to standard output. A closed pipe (`| head`) is not an error.
fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}
