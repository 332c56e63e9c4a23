//! The launcher role: a process of its own that starts scripts for one server process, may have privileges that the server has not, and parses no request.
//!
//! It gets its end of the link to the supervisor as standard input, and over that the socket to the server process. It has no listening socket, no key, no
//! log but its standard error. It ends when the server process has closed the socket, or when the supervisor says so, after all script processes.

use std::process::ExitCode;
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};
use rustix::process::{Resource, getrlimit};
use sluice_launch::{CurrentUsers, IgnoredSignals, LauncherHealth, ScriptUsers, deadline};
use sluice_script::script_users;
use sluice_settings::ScriptUserSettings;

use crate::link::channel::{Channel, Received, UNSAID};
use crate::link::message::{FromLauncher, ToLauncher};
use crate::signals::event_loop;

/// The name of a launcher in the process table, by which the program knows its role.
pub(crate) const LAUNCHER_NAME: &str = "sluice: launcher";

pub(crate) fn run() -> Result<ExitCode, String> {
    // A service manager sends SIGTERM to every process of a service. The supervisor has the server process end first.
    let _ignored = IgnoredSignals::ignore();
    event_loop()?.block_on(serve())
}

async fn serve() -> Result<ExitCode, String> {
    let (mut channel, Received { message, mut fds }) = Channel::begin().await?;
    let ToLauncher::Start(plan) = message else {
        return Err(UNSAID.to_owned());
    };
    let socket = fds
        .pop()
        .ok_or("launcher: the supervisor has sent too few descriptors")?;
    let failed = |error: String| format!("launcher: {error}");
    let end = socket.try_clone().map_err(|error| failed(error.to_string()))?;
    // Scripts of root itself (--allow-root) keep what root has.
    if sluice_launch::is_root() && plan.users.usual.is_some() {
        sluice_launch::withhold_privileges_from_programs().map_err(|error| failed(error.to_string()))?;
    }
    let users = Arc::new(CurrentUsers::default());
    // Before it is raised: that of scripts whose route names none.
    let open_files_max = getrlimit(Resource::Nofile).current;
    users.set(policy(&plan.users, open_files_max));
    let policy = Arc::clone(&users);
    // The policy comes from the supervisor, never from the server process.
    let preparing = tokio::task::spawn_blocking(move || plan.prepare(socket, policy));
    let service = preparing.await.map_err(|error| failed(error.to_string()))?;
    let service = service.map_err(failed)?;
    let health = service.health();
    let mut serving = tokio::task::spawn_blocking(move || service.run());
    let served = tokio::select! {
        served = &mut serving => served,
        () = obey(&mut channel, &users, open_files_max, &health) => {
            // As if the server process were gone.
            let _ = shutdown(&end, Shutdown::Both);
            serving.await
        }
    };
    // What scripts have left behind.
    sluice_launch::end_orphans();
    let served = served.map_err(|error| failed(error.to_string()))?;
    served.map_err(|error| failed(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// The policy for users and programs. The file system of a directory of scripts may not answer: then it is not asked for.
fn policy(settings: &ScriptUserSettings, open_files_max: Option<u64>) -> ScriptUsers {
    deadline::with_deadline(|| {
        deadline::assume_silence(&settings.silent);
        script_users::policy(settings, open_files_max)
    })
}

async fn answer(channel: &Channel, message: FromLauncher) {
    if let Err(error) = channel.send(&message, &[]).await {
        // Its end is noticed by `next`.
        tracing::debug!("launcher: {error}");
    }
}

async fn obey(channel: &mut Channel, users: &CurrentUsers, open_files_max: Option<u64>, health: &LauncherHealth) {
    while let Ok(Some(Received { message, .. })) = channel.next::<ToLauncher>().await {
        match message {
            ToLauncher::Users(settings) => {
                users.set(policy(&settings, open_files_max));
                answer(channel, FromLauncher::UsersSet).await;
            }
            // The supervisor replaces a launcher that does not answer.
            ToLauncher::Ask if !health.is_steady() => {
                tracing::error!("launcher: starts of scripts hang, and nothing ends them");
            }
            ToLauncher::Ask => answer(channel, FromLauncher::Alive).await,
            ToLauncher::End => return,
            ToLauncher::Start(_) => tracing::error!("launcher: the supervisor has said twice how to start"),
        }
    }
}
