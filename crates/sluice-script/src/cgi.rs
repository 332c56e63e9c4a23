//! CGI: one process a request (RFC 3875). The variables are its environment, the body its standard input to end-of-file, its
//! reply ends with its output.

use sluice_gateway::{EndMark, Environment, Reply};
use sluice_http::fault::Fault;
use sluice_launch::Stdin;
use sluice_settings::RequestBody as BodyChoice;

use crate::conversation::Conversation;
use crate::job;
use crate::job::Job;
use crate::process;
use crate::pump::{Pump, Source};
use crate::relay::Relay;
use crate::request_body::{RequestBody, Stored};
use crate::session::Session;

/// Runs the script for one request, up to the head of its reply.
pub(crate) async fn run(job: Box<Job>, body: RequestBody) -> Result<(Box<Session>, Reply), Fault> {
    let settings = job.settings();
    let Body {
        input,
        source,
        content_length,
    } = prepare(body, settings.request_body).await?;
    // After the body, which may take its client's time.
    let pool = job.route.pools.pool(&job.script, settings);
    let mut lease = pool.acquire(job.scripts.worker).await?;
    let sentinels = job::sentinels()?;
    let variables = job.variables(&sentinels, content_length);
    let environment = Environment::for_cgi(&variables, &job.inherited()).into_bytes();
    let segment = job::segment()?;
    let program = job.program(job.arguments(), environment, input, &segment)?;
    lease.take();
    let ended = lease.ending();
    let (process, channels) = process::start(&job.scripts, job.spec(sentinels), program, segment, ended).await?;
    process.begin_exchange(job.id);
    let scanner = job.scanner(&process, EndMark::EndOfFile);
    let (callouts, idle_timer) = (job.callouts(&process), job.idle_timer());
    let relay = Relay::new(process, channels, scanner, callouts, source.map(Pump::once), idle_timer);
    let mut session = Session::new(Conversation::new(&job.scripts, &job.route, relay, lease));
    let reply = session.head().await?;
    Ok((session, reply))
}

/// How a request body reaches a process that is not started yet.
struct Body {
    input: Stdin,
    source: Option<Source>,
    content_length: Option<u64>,
}

/// A body of known length is handed on as it arrives. One without is stored first, so that CONTENT_LENGTH is true
/// (RFC 3875 §4.1.2), or streamed without it by the route's choice.
async fn prepare(body: RequestBody, choice: BodyChoice) -> Result<Body, Fault> {
    let piped = |source, content_length| Body {
        input: Stdin::Pipe,
        source: Some(source),
        content_length,
    };
    let announced = body.announced();
    if announced.is_none() && !body.is_over() && choice == BodyChoice::Spool {
        return Ok(match body.store().await? {
            // A file is the standard input itself: nothing needs to be moved.
            (Stored::File(file), length) => Body {
                input: Stdin::File(file.into()),
                source: None,
                content_length: Some(length),
            },
            (stored, length) => piped(stored.into(), Some(length)),
        });
    }
    if body.is_over() {
        return Ok(Body {
            input: Stdin::Null,
            source: None,
            content_length: None,
        });
    }
    Ok(piped(Source::Client(Box::new(body)), announced))
}
