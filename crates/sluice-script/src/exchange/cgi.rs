//! CGI (RFC 3875): one process for each request. Its environment holds the variables, its input is the body, and its reply ends with its output.

use std::rc::Rc;

use sluice_gateway::{EndMark, Reply};
use sluice_http::body_source::{BodySource, RepeatableBody};
use sluice_http::fault::Fault;
use sluice_http::request_body::RequestBody;
use sluice_http::stored_body::StoredBody;
use sluice_launch::Stdin;
use sluice_membuf::Reservation;
use sluice_settings::RequestBody as BodyChoice;
use sluice_watch::Stage;

use crate::exchange::{Audience, Conversation, Job, Pump, Relay, new_sentinels};
use crate::process::{KeptTimer, script_process};

/// Runs the script for one request, up to the head of its reply.
pub(crate) async fn run(job: Rc<Job>, body: RequestBody) -> Result<(Box<Conversation>, Reply), Fault> {
    let settings = job.settings();
    let body = prepare(&job, body).await?;
    // Only now, because the client may need long to send the body.
    let pool = job.pool();
    let events = job.events();
    job.tracer.stage(Stage::AwaitingProcess);
    let applicant = pool.applicant(job.scripts.worker, None, job.request.client());
    let mut lease = pool.acquire(applicant, job.request.id, &events).await?;
    let sentinels = new_sentinels()?;
    let variables = job.variables(Some(&sentinels), body.content_length);
    events.begin_process(&sentinels);
    events.variables(&variables, || job.inherited());
    let environment = variables.cgi_environment(&job.inherited()).bytes();
    let segment = job.segment()?;
    let arguments = match settings.passes_arguments {
        true => job.request.arguments(),
        false => Vec::new(),
    };
    let program = job.program(arguments, environment, body.input, segment.as_ref())?;
    lease.take();
    let ended = lease.exit_notice();
    let ended = move |exit| {
        ended(exit);
        drop(body.reservation);
    };
    job.tracer.stage(Stage::StartingProcess);
    let (process, channels) = script_process::start(
        &job.scripts.processes,
        job.spec(sentinels),
        program,
        segment,
        &events,
        ended,
    )
    .await?;
    lease.note_process(&process);
    process.begin_exchange(job.request.id, None);
    job.note_process(&process);
    let scanner = job.scanner(&process, EndMark::EndOfFile);
    let (callouts, idle_timer) = (job.callouts(&process), job.idle_timer(KeptTimer::default()));
    let relay = Relay::new(
        process,
        channels,
        scanner,
        callouts,
        body.source.map(|source| Pump::new(RepeatableBody::once(source))),
        idle_timer,
        events,
    );
    let mut conversation = Conversation::new(&job, relay, lease, Audience::Waiting);
    let reply = conversation.head().await?;
    Ok((conversation, reply))
}

/// How the request body reaches a process that is not started yet.
struct Body {
    input: Stdin,
    source: Option<BodySource>,
    content_length: Option<u64>,
    /// The bytes of the file that is the standard input, which the process holds until its end.
    reservation: Option<Reservation>,
}

/// Passes a body of known length on as it arrives. Any other is stored first, for an exact CONTENT_LENGTH (RFC 3875 §4.1.2), unless the route streams it.
async fn prepare(job: &Job, body: RequestBody) -> Result<Body, Fault> {
    let piped = |source, content_length| Body {
        input: Stdin::Pipe,
        source: Some(source),
        content_length,
        reservation: None,
    };
    let announced = body.announced();
    if announced.is_none() && !body.is_over() && job.settings().request_body == BodyChoice::Spool {
        return Ok(match job.store(body).await? {
            // The file itself is the standard input: no byte is copied.
            (StoredBody::File(file), length) => {
                let (file, reservation) = file.into_read_only().await?;
                Body {
                    input: Stdin::File(file),
                    source: None,
                    content_length: Some(length),
                    reservation: Some(reservation),
                }
            }
            (stored, length) => piped(stored.into(), Some(length)),
        });
    }
    if body.is_over() {
        let input = Stdin::Null;
        return Ok(Body {
            input,
            source: None,
            content_length: None,
            reservation: None,
        });
    }
    Ok(piped(BodySource::Client(Box::new(body)), announced))
}
