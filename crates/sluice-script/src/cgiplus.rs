//! CGIplus: the process lives, and is handed request after request. The variables are a record on CGIPLUSIN, the body is
//! CONTENT_LENGTH bytes on its standard input, its reply ends with the end sentinel.

use std::io::{self, ErrorKind};

use bytes::Bytes;
use sluice_gateway::{EndMark, Environment, Reply, RequestEncoding, encode_request};
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_launch::Stdin;

use crate::conversation::Conversation;
use crate::job;
use crate::job::Job;
use crate::lease::{IdleProcess, Lease};
use crate::mailbox::Mailbox;
use crate::process;
use crate::pump::{Pump, Source};
use crate::relay::Relay;
use crate::request_body::RequestBody;
use crate::session::Session;

/// Idle processes that turn out to have ended, until a request is given up. Any may end at any moment; a new one that does
/// not look at its first request is a broken script.
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
            // It had ended while it was idle, or was just ending: this request never reached it.
            Err(fault) => {
                tracing::debug!(id = %job.id, "given to another process: {fault}");
                pump = session.take_pump().map(Pump::rewind);
                attempt += 1;
            }
        }
    }
}

/// A body must have a length here: the script reads so many bytes and no more.
async fn prepare(body: RequestBody) -> Result<(Option<Pump>, Option<u64>), Fault> {
    if body.is_over() {
        return Ok((None, body.announced().filter(|length| *length > 0)));
    }
    if let Some(length) = body.announced() {
        return Ok((Some(Pump::repeatable(Source::Client(Box::new(body)))), Some(length)));
    }
    let (stored, length) = body.store().await?;
    Ok((Some(Pump::repeatable(stored.into())), Some(length)))
}

/// Makes a idle process ready on this worker: one of another worker's event loop moves here. `None`: it is of no more use,
/// because it has ended, or wrote something that no request asked for.
fn rebind_to_worker(job: &Job, mut idle: IdleProcess) -> Result<Option<IdleProcess>, Fault> {
    let is_here = idle.worker == job.scripts.worker;
    // This worker's event loop knows; what another's knows may be old.
    let read = if is_here {
        Mailbox::read_early
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

/// Between requests: nothing has come but the newline that may follow the sentinel, and the script still holds its end.
fn is_quiet(mailbox: &mut Mailbox, read: fn(&mut Mailbox) -> io::Result<Option<Bytes>>) -> bool {
    let is_empty = |read: io::Result<_>| read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    match read(mailbox) {
        Ok(Some(bytes)) if bytes == "\n" => is_empty(read(mailbox)),
        read => is_empty(read),
    }
}

async fn start(job: &Job, lease: &mut Lease) -> Result<IdleProcess, Fault> {
    let sentinels = job::sentinels()?;
    let extra: Vec<_> = job.settings().variables.added.clone().into_iter().collect();
    let environment = Environment::for_cgiplus(&sentinels, &job.inherited(), &extra).into_bytes();
    let segment = job::segment()?;
    let program = job.program(Vec::new(), environment, Stdin::Pipe, &segment)?;
    let ended = lease.ending();
    let (process, channels) = process::start(&job.scripts, job.spec(sentinels), program, segment, ended).await?;
    let scanner = job.scanner(&process, EndMark::Sentinel);
    Ok(IdleProcess {
        process,
        channels,
        worker: job.scripts.worker,
        form: RequestEncoding::default(),
        scanner,
    })
}

/// Puts the request on CGIPLUSIN; the relay writes it.
fn begin(job: &Job, idle: IdleProcess, pump: Option<Pump>, content_length: Option<u64>) -> Relay {
    let IdleProcess {
        process,
        mut channels,
        form,
        scanner,
        ..
    } = idle;
    process.begin_exchange(job.id);
    let variables = job.variables(&process.sentinels, content_length);
    let record = channels.cgiplusin.begin();
    encode_request(&variables, form, record);
    let (mut callouts, idle_timer) = (job.callouts(&process), job.idle_timer());
    callouts.form = Some(form);
    Relay::new(process, channels, scanner, callouts, pump, idle_timer).with_record()
}
