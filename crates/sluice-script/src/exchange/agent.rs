//! Authentication agents: a script that is asked about a user instead of for a page (WASD).
//!
//! The script gets the variables of the request with REMOTE_USER, AUTH_PASSWORD, AUTH_REALM and AUTH_AGENT, and answers with lines between
//! the sentinels of a callout (`sluice_gateway::AgentLine`).

use std::rc::Rc;

use http::StatusCode;
use sluice_gateway::AgentAnswer;
use sluice_http::fault::{Fault, ScriptFault};

use crate::exchange::{Job, cgiplus};
use sluice_http::request_body::RequestBody;

/// Asks an agent, in its kept process. Waits at most as long as its route lets a script take.
///
/// # Errors
/// The script's: it has failed, is silent, or has said nothing of the user.
pub async fn ask(job: Rc<Job>) -> Result<AgentAnswer, Fault> {
    let script = job.script.file.clone();
    let (mut conversation, _) = cgiplus::run(job, RequestBody::none()).await?;
    let relay = conversation.relay_mut();
    let answer = relay.and_then(|relay| relay.callouts.agent.take()).unwrap_or_default();
    conversation.begin_unwanted_body(StatusCode::OK);
    conversation.abandon();
    let failure = match &answer.failed {
        Some(reason) => reason.clone(),
        None if answer.is_complete() => return Ok(answer),
        None => {
            let unknown = answer.unknown.iter();
            let line = unknown.map(|text| format!("; the line 100 {text} is not known"));
            let known = "a line 100 USER, 100 REMOTE-USER NAME, 401 REASON or 500 REASON says it";
            format!("it has said nothing of the user{}: {known}", line.collect::<String>())
        }
    };
    Err(ScriptFault::agent(&script, &failure).into())
}
