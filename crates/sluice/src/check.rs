//! `sluice check`: the mistakes of a configuration and its warnings, as text or JSON, and the explanation of a request.
//!
//! Root checks for the user of the server, because root can read more.

use std::path::Path;

use serde::Serialize;
use sluice_config::{Mistake, ServerUsers};
use sluice_http::escape::escaped_lines;
use sluice_launch::deadline;
use sluice_net::certificate_facts::{incomplete_chains, uncovered_hosts};
use sluice_script::program::engine_trial::{self, TrialFailure};
use sluice_settings::permission::{self, Subject};
use sluice_settings::{ControlSocket, Settings, User};

use crate::arguments::Check;
use crate::{explain, exposed, log_permissions, print, users};

/// The result of a check, as `--json` prints it.
#[derive(Serialize)]
struct Outcome {
    valid: bool,
    configuration: String,
    mistakes: Vec<ShownMistake>,
    warnings: Vec<String>,
    /// The sites and routes that a server would serve. Empty if there are mistakes.
    summary: Vec<String>,
}

#[derive(Serialize)]
struct ShownMistake {
    /// `None` if the mistake is not in a file.
    file: Option<String>,
    line: Option<usize>,
    message: String,
}

struct Found {
    warnings: Vec<String>,
    description: String,
}

/// Checks a configuration, or explains what would happen to a request.
///
/// Returns whether it is valid, or the request is served.
pub(crate) fn run(check: &Check) -> Result<bool, String> {
    permission::leave_to_root();
    let file = &check.config.path()?;
    // A file system of the configuration may not answer.
    deadline::with_deadline(|| run_with_deadline(check, file))
}

fn run_with_deadline(check: &Check, file: &Path) -> Result<bool, String> {
    if let Some(url) = &check.explain.url {
        return explain_request(check, file, url);
    }
    let found = find(check, file);
    if check.json {
        return print_json(file, found);
    }
    let found = found.map_err(|mistakes| lines(&mistakes))?;
    for warning in &found.warnings {
        tracing::warn!("{}", escaped_lines(warning));
    }
    if !check.quiet {
        print(&escaped_lines(&found.description))?;
    }
    Ok(true)
}

fn lines(mistakes: &[Mistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn find(check: &Check, file: &Path) -> Result<Found, Vec<Mistake>> {
    let settings = sluice_config::load(file).map_err(|errors| errors.mistakes)?;
    let whole = |message: String| Mistake::of_nothing(message);
    let server_users = server_users(check.run_as.as_deref(), &settings).map_err(|error| vec![whole(error)])?;
    // Another user than that of this process: what it opens says nothing.
    if let Some(server_users) = server_users.as_ref().filter(|_| sluice_launch::is_root()) {
        let unusable = sluice_config::unusable(&settings, server_users);
        if !unusable.is_empty() {
            return Err(unusable.into_iter().map(whole).collect());
        }
    }
    let unusable = unusable_logs(&settings, server_users.as_ref());
    if !unusable.is_empty() {
        return Err(unusable);
    }
    sluice_server::check(&settings).map_err(|error| vec![whole(error.to_string())])?;
    let known = server_users
        .as_ref()
        .filter(|users| checks_for_server(&settings, users));
    let mut warnings = sluice_config::warnings_for(&settings, known.map(|users| users.server.uid()));
    if let Some(server_users) = &server_users {
        warnings.extend(try_engines(&settings, &server_users.server)?);
    }
    warnings.extend(exposed::program_warnings(&settings));
    warnings.extend(uncovered_hosts(&settings));
    warnings.extend(incomplete_chains(&settings));
    match &server_users {
        Some(server_users) => warnings.extend(sluice_config::script_warnings(&settings, server_users)),
        None => warnings.push(
            "checked as root, and the user of the server is not known: name it, as in `sluice check --run-as www-data`. `sluice run` refuses to run \
             as root unless user = \"www-data\" in [server] names another user, or --allow-root is given"
                .to_owned(),
        ),
    }
    if !sluice_launch::is_root() {
        warnings.extend(users::check(&settings, false).err());
    }
    let (summary, described) = (
        sluice_config::summary(file, &settings),
        sluice_config::describe(&settings),
    );
    Ok(Found {
        warnings,
        description: format!("{summary}\n{described}"),
    })
}

/// Starts each engine once. Returns warnings about those of which nothing is known.
fn try_engines(settings: &Settings, server: &Subject) -> Result<Vec<String>, Vec<Mistake>> {
    let (mut mistakes, mut warnings) = (Vec::new(), Vec::new());
    for failure in engine_trial::failures(settings, server) {
        match failure {
            TrialFailure::Fails { origin, message } => mistakes.push(Mistake::of_route(&origin, message)),
            TrialFailure::IsSlow(message) => warnings.push(message),
        }
    }
    match mistakes.is_empty() {
        true => Ok(warnings),
        false => Err(mistakes),
    }
}

/// The users of the server that has this configuration. `None` if root checks it, and nothing says who will run it.
fn server_users(named: Option<&str>, settings: &Settings) -> Result<Option<ServerUsers>, String> {
    let own = Subject::own();
    let of = |starter: Subject| {
        let server = settings.users.server.as_ref().map(Subject::of);
        ServerUsers {
            server: server.unwrap_or_else(|| starter.clone()),
            starter,
        }
    };
    if let Some(name) = named {
        let user: User = sluice_config::parse_user(name).map_err(|error| format!("--run-as {name}: {error}"))?;
        if !sluice_launch::is_root() && user.credentials.uid != own.uid() {
            return Err(format!(
                "--run-as {name}: only root can check for another user: run it as root"
            ));
        }
        return Ok(Some(of(Subject::of(&user))));
    }
    if !sluice_launch::is_root() || settings.users.server.is_some() {
        return Ok(Some(of(own)));
    }
    Ok(owner_of_socket(&settings.control).map(of))
}

/// The logs that the server could not open. None if an ordinary user checks what another one serves.
fn unusable_logs(settings: &Settings, users: Option<&ServerUsers>) -> Vec<Mistake> {
    let own = Subject::own();
    let Some(users) = users else {
        // Root may write everything, except where the running server has read-only mounts.
        let (starter, server) = (own.clone(), own);
        return log_permissions::mistakes(settings, &ServerUsers { starter, server });
    };
    match checks_for_server(settings, users) {
        true => log_permissions::mistakes(settings, users),
        false => Vec::new(),
    }
}

/// Whether this process may say what the server of these users can use. An ordinary user may not for what another one serves.
fn checks_for_server(settings: &Settings, users: &ServerUsers) -> bool {
    let own = Subject::own().uid();
    let is_own = || owner_of_socket(&settings.control).is_none_or(|owner| owner.uid() == own);
    sluice_launch::is_root() || users.server.uid() == own && is_own()
}

/// The user of the control socket, or of the directory that a service manager has made for it: the user who starts the server. `None` for root,
/// and without a socket of its own.
fn owner_of_socket(control: &ControlSocket) -> Option<Subject> {
    use std::os::unix::fs::MetadataExt;
    let ControlSocket::Path(socket) = control else {
        return None;
    };
    let about = deadline::metadata(socket).or_else(|_| deadline::metadata(socket.parent().unwrap_or(socket)));
    let about = about.ok().filter(|about| about.uid() != 0)?;
    let user = sluice_config::parse_user(&about.uid().to_string())
        // Without an account.
        .or_else(|_| sluice_config::parse_user(&format!("{}:{}", about.uid(), about.gid())));
    user.ok().as_ref().map(Subject::of)
}

fn print_json(file: &Path, found: Result<Found, Vec<Mistake>>) -> Result<bool, String> {
    let (mistakes, warnings, description) = match found {
        Ok(found) => (Vec::new(), found.warnings, found.description),
        Err(mistakes) => (mistakes, Vec::new(), String::new()),
    };
    let outcome = Outcome {
        valid: mistakes.is_empty(),
        configuration: file.display().to_string(),
        mistakes: mistakes
            .into_iter()
            .map(|mistake| ShownMistake {
                file: mistake.file,
                line: mistake.line,
                message: mistake.message,
            })
            .collect(),
        warnings,
        summary: description.lines().map(str::to_owned).collect(),
    };
    let text = serde_json::to_string(&outcome).map_err(|error| format!("the result as JSON: {error}"))?;
    print(&format!("{text}\n"))?;
    Ok(outcome.valid)
}

fn explain_request(check: &Check, file: &Path, url: &str) -> Result<bool, String> {
    let settings = sluice_config::load(file).map_err(|errors| errors.to_string())?;
    let question = explain::question(&check.explain, url)?;
    // Warnings about the files are for `check` alone: here they would stand between the lines of the answer.
    let explanation = tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
        sluice_server::check(&settings)?;
        sluice_server::explain(&settings, &question)
    });
    let explanation = explanation.map_err(|error| error.to_string())?;
    print(&explain::render(&question, &explanation))?;
    Ok(explanation.is_served())
}
