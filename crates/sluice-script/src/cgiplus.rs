//! CGIplus: a process is kept and gets one request after the other. The variables are a record on CGIPLUSIN, the body is
//! CONTENT_LENGTH bytes on its standard input, and the end sentinel ends its reply.

use std::io::{self, ErrorKind};

use bytes::Bytes;
use sluice_gateway::{EndMark, Environment, Reply, RequestEncoding, encode_request};
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_launch::Stdin;

use crate::conversation::Conversation;
use crate::job::{Job, new_segment, new_sentinels};
use crate::lease::{IdleProcess, Lease};
use crate::mailbox::Mailbox;
use crate::process;
use crate::pump::{BodySource, Pump};
use crate::relay::Relay;
use crate::request_body::RequestBody;
use crate::session::Session;

/// Attempts to give a request to an idle process. Any of them may have ended meanwhile; a new process that does not read its
/// first request is a fault of the script at once.
const ATTEMPTS_MAX: usize = 100;

/// Runs the script for one request, up to the head of its reply.
pub(crate) async fn run(job: Box<Job>, body: RequestBody) -> Result<(Box<Session>, Reply), Fault> {
    let (mut pump, content_length) = prepare(body).await?;
    let mut attempt = 1;
    loop {
        let pool = job.route.pools.pool(&job.script, job.settings());
        let mut lease = pool.acquire(job.scripts.worker).await?;
        let (idle, is_new) = match lease.take() {
            Some(idle) => match rebind_to_worker(&job, idle)? {
                Some(idle) => (idle, false),
                None => continue,
            },
            None => (start(&job, &mut lease).await?, true),
        };
        let relay = begin(&job, idle, pump.take(), content_length);
        let mut session = Session::new(Conversation::new(&job.scripts, &job.route, relay, lease));
        match session.head().await {
            Ok(reply) => return Ok((session, reply)),
            Err(fault) if is_new || attempt == ATTEMPTS_MAX || !session.is_request_unread() => return Err(fault),
            // It ended while it was idle, or just now: this request never reached it.
            Err(fault) => {
                tracing::debug!(id = %job.request.id, "given to another process: {fault}");
                pump = session.take_pump().map(Pump::rewind);
                attempt += 1;
            }
        }
    }
}

/// The script reads CONTENT_LENGTH bytes and no more, so a body without a length is stored first.
async fn prepare(body: RequestBody) -> Result<(Option<Pump>, Option<u64>), Fault> {
    if body.is_over() {
        return Ok((None, body.announced().filter(|length| *length > 0)));
    }
    if let Some(length) = body.announced() {
        return Ok((Some(Pump::repeatable(BodySource::Client(Box::new(body)))), Some(length)));
    }
    let (stored, length) = body.store().await?;
    Ok((Some(Pump::repeatable(stored.into())), Some(length)))
}

/// Moves an idle process to the event loop of this worker, if it belongs to another. `None` if the process cannot be used, because
/// it has ended, or has written bytes outside a reply; it is stopped then. The server's fault: it cannot be moved.
fn rebind_to_worker(job: &Job, mut idle: IdleProcess) -> Result<Option<IdleProcess>, Fault> {
    let is_here = idle.worker == job.scripts.worker;
    // This worker's event loop knows whether there are bytes; what another worker's knows may be outdated.
    let read = if is_here {
        Mailbox::read_if_ready
    } else {
        Mailbox::read_now
    };
    if !is_quiet(&mut idle.channels.mailbox, read) {
        idle.process.stop();
        return Ok(None);
    }
    if is_here {
        return Ok(Some(idle));
    }
    let process = idle.process;
    match idle.channels.rebind() {
        Ok(channels) => Ok(Some(IdleProcess {
            process,
            channels,
            worker: job.scripts.worker,
            ..idle
        })),
        Err(error) => {
            process.stop();
            Err(ServerFault::io(Activity::ChangeOfWorker, error).into())
        }
    }
}

/// Whether nothing has arrived since the last reply but the newline that may follow the sentinel, and the pipe is not closed.
fn is_quiet(mailbox: &mut Mailbox, read: fn(&mut Mailbox) -> io::Result<Option<Bytes>>) -> bool {
    let is_empty = |read: io::Result<_>| read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    match read(mailbox) {
        Ok(Some(bytes)) if bytes == "\n" => is_empty(read(mailbox)),
        read => is_empty(read),
    }
}

/// Starts a process for the lease.
async fn start(job: &Job, lease: &mut Lease) -> Result<IdleProcess, Fault> {
    let sentinels = new_sentinels()?;
    let extra: Vec<_> = job.settings().variables.added.clone().into_iter().collect();
    let environment = Environment::for_cgiplus(&sentinels, &job.inherited(), &extra).into_bytes();
    let segment = new_segment()?;
    let program = job.program(Vec::new(), environment, Stdin::Pipe, &segment)?;
    let ended = lease.exit_notice();
    let (process, channels) = process::start(&job.scripts, job.spec(sentinels), program, segment, ended).await?;
    let scanner = job.scanner(&process, EndMark::Sentinel);
    Ok(IdleProcess {
        process,
        channels,
        worker: job.scripts.worker,
        encoding: RequestEncoding::default(),
        scanner,
    })
}

/// Prepares the request's record for CGIPLUSIN; the relay writes it.
fn begin(job: &Job, idle: IdleProcess, pump: Option<Pump>, content_length: Option<u64>) -> Relay {
    let IdleProcess {
        process,
        mut channels,
        encoding,
        scanner,
        ..
    } = idle;
    process.begin_exchange(job.request.id);
    let variables = job.variables(&process.sentinels, content_length);
    let record = channels.cgiplusin.begin();
    encode_request(&variables, encoding, record);
    let (mut callouts, idle_timer) = (job.callouts(&process), job.idle_timer());
    callouts.encoding = Some(encoding);
    Relay::new(process, channels, scanner, callouts, pump, idle_timer).with_record()
}
