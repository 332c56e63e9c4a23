//! Actions on the pages: `POST action` with the token of the visitor and from a page of ours.
//!
//! A browser says which site's page has sent a form: Sec-Fetch-Site (Fetch Metadata Request Headers), or Origin (RFC 6454 §7). Programs
//! send neither; they read the token from `action.json`. An action is logged with who asked for it.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use http::Response;
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault, Forbidden};
use sluice_pages::action::{Actions, Done, Offered};
use sluice_report::command::{Command, CommandResult};

use crate::commands;
use crate::context::Context;
use crate::operator::reports::ask::{Ask, Notation, Values};
use crate::operator::reports::page::{Collected, Content, Page, Subject, Wanted, page, ready};
use crate::operator::reports::{answer, frame, origin, page_of};
use crate::operator::{Operator, OrderError, ended_text};

pub(super) const PAGE: Page = page("action", "Actions", Subject::Requests, Content::Value(collect));

const BODY_BYTES_MAX: usize = 16 << 10;

pub(super) struct Action {
    pub about: Offered,
    pub run: fn(Requested) -> Outcome,
}

/// A request for an action that has passed the checks.
pub(super) struct Requested {
    pub context: Rc<Context>,
    /// Further values of the form, for actions that need some.
    pub values: Values,
    pub by: String,
}

pub(super) type Outcome = Pin<Box<dyn Future<Output = CommandResult>>>;

static ACTIONS: &[Action] = &[
    Action {
        about: Offered {
            name: "reload",
            title: "Reload the configuration",
            text: "Reads the configuration again, as SIGHUP does. A wrong one changes nothing. Script processes that are kept end after their reply.",
            values: &[],
            is_final: false,
        },
        run: |requested| command(requested, Command::Reload),
    },
    Action {
        about: Offered {
            name: "purge",
            title: "Empty the file cache",
            text: "Files are read again from the next request on, as after SIGUSR2.",
            values: &[],
            is_final: false,
        },
        run: |requested| command(requested, Command::Purge),
    },
    Action {
        about: Offered {
            name: "reset-statistics",
            title: "Begin to count again",
            text: "The page of the statistics shows what happens from now on. The counters of the page metrics go on.",
            values: &[],
            is_final: false,
        },
        run: |requested| {
            requested.context.state.statistics.reset(SystemTime::now());
            let text = "the statistics begin again";
            tracing::info!("reset-statistics by {}: {text}", requested.by);
            Box::pin(std::future::ready(CommandResult::done_with(text)))
        },
    },
    Action {
        about: Offered {
            name: "reopen-logs",
            title: "Reopen the logs",
            text: "Opens the logs again under their names, as SIGUSR1 does after they were renamed.",
            values: &[],
            is_final: false,
        },
        run: |requested| command(requested, Command::ReopenLogs),
    },
    Action {
        about: Offered {
            name: "retire",
            title: "Retire a script",
            text: "Ends the processes of a script, which is named by its file or its path in a URL: idle ones at once, busy ones after their request.",
            values: &["script"],
            is_final: false,
        },
        run: |requested| Box::pin(retire(requested)),
    },
    Action {
        about: Offered {
            name: "end",
            title: "End a request",
            text: "Ends the request with this id, and stops its script process. Its client gets 503, or an aborted response.",
            values: &["id"],
            is_final: false,
        },
        run: |requested| Box::pin(end(requested)),
    },
    Action {
        about: Offered {
            name: "drain",
            title: "End the server",
            text: "Ends the server after the requests in progress, as SIGTERM does. These pages end with it.",
            values: &[],
            is_final: true,
        },
        run: |requested| command(requested, Command::Drain),
    },
];

async fn retire(requested: Requested) -> CommandResult {
    let script = requested.values.get("script").unwrap_or_default().to_owned();
    let (state, name) = (Arc::clone(&requested.context.state), script.clone());
    // It may wait for a file system.
    let retired = tokio::task::spawn_blocking(move || Operator::new(&state).retire(&name)).await;
    let retired = retired.unwrap_or(Err(OrderError::Panicked));
    requested.log("retire", retired.map(|retired| retired.describe(&script)))
}

async fn end(requested: Requested) -> CommandResult {
    let id = requested.values.get("id").unwrap_or_default();
    let ended = Operator::new(&requested.context.state).end(id).await;
    requested.log("end", ended.map(|request| ended_text(&request)))
}

impl Requested {
    fn log(&self, name: &str, result: Result<String, OrderError>) -> CommandResult {
        match result {
            Ok(text) => {
                tracing::info!("{name} by {}: {text}", self.by);
                CommandResult::done_with(&text)
            }
            Err(error) => {
                tracing::warn!("{name} by {}: {error}", self.by);
                CommandResult::refused(&error.to_string())
            }
        }
    }
}

/// Has the supervisor carry out a command, which logs it.
fn command(requested: Requested, command: Command) -> Outcome {
    Box::pin(async move { commands::give(&requested.context.state.commands, command, requested.by).await })
}

fn collect(wanted: &Wanted) -> Collected {
    ready(Actions {
        token: wanted.context.state.visitors.token_of(&wanted.visitor),
        actions: ACTIONS.iter().map(|action| action.about.clone()).collect(),
    })
}

/// Carries out an action. Errors of the client: the body is too large, the token is not the visitor's, the form comes from another site (403), or there is no
/// such action (404).
pub(super) async fn carry_out(mut ask: Ask, notation: Notation) -> Result<Response<ResponseBody>, Fault> {
    if let Some(why) = origin::of_action(&ask.fields, &ask.origin) {
        return refuse(why);
    }
    let body = std::mem::replace(&mut ask.body, sluice_http::request_body::RequestBody::none());
    let body = body.read(BODY_BYTES_MAX).await?;
    let values = Values::parse(&String::from_utf8_lossy(&body));
    let token = values.get("token").unwrap_or_default();
    if !ask.context.state.visitors.is_token_of(&ask.visitor, token) {
        let why = if token.is_empty() {
            "it has no token"
        } else {
            "its token is not valid"
        };
        return refuse(why);
    }
    let name = values.get("action").unwrap_or_default().to_owned();
    let action = ACTIONS.iter().find(|action| action.about.name == name);
    let action = action.ok_or_else(|| {
        let absent = sluice_http::fault::Absent::Report(format!("action {name}").into());
        ClientFault::NotFound(absent)
    })?;
    let page = values.get("page").unwrap_or_default();
    let page = page_of(page).map_or("", |page| page.link.name);
    let requested = Requested {
        context: Rc::clone(&ask.context),
        by: ask.by(),
        values,
    };
    let CommandResult { ok, messages, .. } = (action.run)(requested).await;
    let done = Done { action: name, ok, messages, page };
    let mut response = match notation {
        Notation::Json => answer::json(&done)?,
        Notation::Html => answer::html(&ask, &frame(&PAGE, &ask), &done),
    };
    if !ok {
        *response.status_mut() = answer::NOT_DONE;
    }
    Ok(response)
}

fn refuse<T>(why: &'static str) -> Result<T, Fault> {
    Err(ClientFault::Forbidden(Forbidden::ActionOfOtherSite(why)).into())
}
