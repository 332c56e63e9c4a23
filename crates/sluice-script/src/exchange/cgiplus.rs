//! CGIplus: a process is kept and gets one request after the other. The variables are a record on CGIPLUSIN, the body is
//! CONTENT_LENGTH bytes on its standard input, and the end sentinel ends its reply.

use std::rc::Rc;

use sluice_gateway::{EndMark, Reply, RequestEncoding, Variables, encode_request};
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_launch::Stdin;
use sluice_membuf::REGION_BYTES;
use sluice_watch::Stage;

use crate::exchange::{Age, Audience, Conversation, Job, Pump, Relay, new_sentinels};
use crate::pool::{IdleProcess, Lease, ScriptId, note_use};
use crate::process::{BEFORE_REQUEST, BETWEEN_REQUESTS, EndCause, KeptTimer, ScriptEvents, Silence, script_process};
use sluice_http::body_source::{BodySource, RepeatableBody};
use sluice_http::request_body::RequestBody;

/// Attempts to give a request to an idle process, which may have ended. A new one that does not read its first request is the script's fault at once.
const ATTEMPTS_MAX: usize = 100;

/// Processes that a request finds writing out of turn before it is refused, so that it does not wait until each of a large pool writes and is stopped.
const OVERTAKEN_MAX: usize = 16;

pub(crate) async fn run(job: Rc<Job>, body: RequestBody) -> Result<(Box<Conversation>, Reply), Fault> {
    let (mut pump, content_length) = prepare(&job, body).await?;
    // An engine that has compiled a script is preferred for it.
    let script = job.script.engine.as_ref().map(|_| ScriptId::of(&job.script.file));
    let (mut attempt, mut overtaken) = (1, 0);
    let events = job.events();
    loop {
        let pool = job.pool();
        job.tracer.stage(Stage::AwaitingProcess);
        let applicant = pool.applicant(job.scripts.worker, script, job.request.client());
        let mut lease = pool.acquire(applicant, job.request.id, &events).await?;
        let (idle, age) = match lease.take() {
            Some(mut idle) => {
                idle.channels.mailbox.take_late_newline().await;
                let Some(idle) = rebind_to_worker(&job, idle, &events)? else {
                    continue;
                };
                note_use(|| lease.career(), &idle.process, &events);
                (idle, Age::Used)
            }
            // Boxed, because most requests find a process.
            None => (Box::pin(start(&job, &mut lease, &events)).await?, Age::New),
        };
        job.note_process(&idle.process);
        let relay = begin(&job, idle, pump.take(), content_length, &events).with_record(age);
        let mut conversation = Conversation::new(&job, relay, lease, Audience::Waiting);
        match conversation.head().await {
            Ok(reply) => return Ok((conversation, reply)),
            Err(fault) if age == Age::New || attempt == ATTEMPTS_MAX || overtaken == OVERTAKEN_MAX => {
                return Err(fault);
            }
            Err(fault) => {
                let Some(relay) = conversation.relay_mut() else {
                    return Err(fault);
                };
                if !relay.take_request_back().await {
                    return Err(fault);
                }
                // It ended while it was idle, or just now, or wrote what is no reply: this request never reached it.
                tracing::debug!(id = %job.request.id, "given to another process: {fault}");
                events.process(|| {
                    "the request is given to another process, because this one has read nothing of it".into()
                });
                if relay.is_overtaken() {
                    job.scripts.misbehaviour.log(&relay.process, BEFORE_REQUEST);
                    overtaken += 1;
                }
                pump = relay.pump.take().and_then(|pump| pump.body.rewind()).map(Pump::new);
                attempt += 1;
            }
        }
    }
}

/// The script reads CONTENT_LENGTH bytes and no more, so a body without a length is stored first.
async fn prepare(job: &Job, body: RequestBody) -> Result<(Option<Pump>, Option<u64>), Fault> {
    if body.is_over() {
        return Ok((None, body.announced().filter(|length| *length > 0)));
    }
    // Until the process shows a sign of life another one can get the request.
    let repeatable = |source| Pump::new(RepeatableBody::repeatable(source));
    if let Some(length) = body.announced() {
        return Ok((Some(repeatable(BodySource::Client(Box::new(body)))), Some(length)));
    }
    let (stored, length) = Box::pin(job.store(body)).await?;
    Ok((Some(repeatable(stored.into())), Some(length)))
}

/// Moves an idle process to the event loop of this worker, if it belongs to another. `None` if the process cannot be used, because
/// it has ended, or has written bytes outside a reply; it is stopped then. The server's fault: it cannot be moved.
fn rebind_to_worker(job: &Job, mut idle: IdleProcess, events: &ScriptEvents) -> Result<Option<IdleProcess>, Fault> {
    let pid = idle.process.pid;
    match idle.channels.mailbox.silence() {
        Silence::Kept => {}
        silence => {
            if silence == Silence::Broken {
                job.scripts.misbehaviour.log(&idle.process, BETWEEN_REQUESTS);
                events.process(|| format!("pid {pid} is stopped, because it wrote between two requests"));
            } else {
                events.process(|| format!("pid {pid} is not used, because it has closed its mailbox, or has ended"));
            }
            idle.process.stop(EndCause::Misbehaved);
            return Ok(None);
        }
    }
    if idle.worker != job.scripts.worker {
        if let Err(error) = idle.channels.rebind() {
            idle.process.stop(EndCause::Unusable);
            return Err(ServerFault::io(Activity::ChangeOfWorker, error).into());
        }
        idle.worker = job.scripts.worker;
        // The other one belongs to the event loop of the other worker.
        idle.timer = KeptTimer::default();
    }
    Ok(Some(idle))
}

pub(crate) async fn start(job: &Job, lease: &mut Lease, events: &ScriptEvents) -> Result<IdleProcess, Fault> {
    let sentinels = new_sentinels()?;
    let extra: Vec<_> = job.settings().variables.added.clone().into_iter().collect();
    let engine = job.script.engine.as_ref().map(|engine| engine.name());
    let environment = Variables::cgiplus_environment(&sentinels, engine, &job.inherited(), &extra);
    let segment = job.segment()?;
    events.begin_process(&sentinels);
    events.environment(&environment);
    let mut program = job.program(Vec::new(), environment.bytes(), Stdin::Pipe, segment.as_ref())?;
    program.is_kept = true;
    let ended = lease.exit_notice();
    job.tracer.stage(Stage::StartingProcess);
    let (process, mut channels) = script_process::start(
        &job.scripts.processes,
        job.spec(sentinels),
        program,
        segment,
        events,
        ended,
    )
    .await
    .inspect_err(|fault| lease.pool.record.note_failure(fault.to_string()))?;
    lease.note_process(&process);
    if let (Some(input), Some(engine)) = (&mut channels.input, &job.script.engine) {
        input.can_be_cut = engine.knows_cut_bodies();
    }
    let scanner = job.scanner(&process, EndMark::Sentinel);
    Ok(IdleProcess {
        process,
        channels,
        worker: job.scripts.worker,
        encoding: RequestEncoding::default(),
        scanner,
        timer: KeptTimer::default(),
    })
}

/// Prepares the request's record for CGIPLUSIN; the relay writes it.
pub(crate) fn begin(
    job: &Job,
    idle: IdleProcess,
    pump: Option<Pump>,
    content_length: Option<u64>,
    events: &ScriptEvents,
) -> Box<Relay> {
    let IdleProcess {
        process, mut channels, encoding, scanner, timer, ..
    } = idle;
    let script = job.script.engine.as_ref().map(|_| job.script.file.as_path());
    process.begin_exchange(job.request.id, script);
    events.begin_process(&process.spec.sentinels);
    // The process has the sentinels in its environment.
    let mut variables = job.variables(None, content_length);
    // Other engines would pass it on to their scripts, which have the environment of CGI.
    let engine = job.script.engine.as_ref();
    let segment = channels.segment.as_ref();
    let region = segment
        .filter(|_| engine.is_none_or(|engine| engine.uses_regions()))
        .and_then(|segment| segment.free_region());
    if let Some(region) = region {
        variables.add_region(region.offset, REGION_BYTES);
    }
    channels.mailbox.begin_reply(&job.scripts.spare_room);
    let can_use_socket = channels.cgiplusin.can_use_socket();
    let record = channels.cgiplusin.begin();
    encode_request(&variables, encoding, record);
    events.variables(&variables, Vec::new);
    events.record(&variables, encoding);
    job.scripts.spare_variables.set(variables.recycled());
    let (mut callouts, idle_timer) = (job.callouts(&process), job.idle_timer(timer));
    callouts.encoding = Some(encoding);
    callouts.can_use_socket = can_use_socket;
    Relay::new(process, channels, scanner, callouts, pump, idle_timer, events.clone()).with_region(region)
}
