//! Starting processes before there is a request for them: those that `min` lacks, and the successors of those that are due.
//!
//! A pool decides when (`shared_pool`). A worker takes the leases, starts the processes, asks them with PROCTOR if the route says so, and returns them.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode, Version};
use sluice_http::endpoints::Endpoints;
use sluice_http::fault::{Fault, ServerFault};
use sluice_http::request_id::UniqueId;
use sluice_http::target::Target;
use sluice_launch::{LookupShare, look_elsewhere};
use sluice_watch::Tracer;
use tokio::time::{sleep, timeout};

use crate::exchange::{Age, Audience, Conversation, Ending, Job, ScriptRequest, cgiplus, reclaim};
use crate::pool::{IdleProcess, Lease, Trial};
use crate::process::{EndCause, ScriptEvents};
pub use crate::program::script::Prepared;
use crate::program::script::Script;
use crate::route::{Map, ScriptRoute};
use crate::scripts::Scripts;

/// The method of requests that no client has sent (WASD's proctor).
pub const METHOD: &str = "PROCTOR";

const UNUSABLE: &str = "it cannot get another request after its reply to PROCTOR";

/// How long the file of a script is looked for.
const FIND_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the processes of a route on one worker.
pub struct Starter {
    /// The script processes of the worker.
    pub scripts: Rc<Scripts>,
    /// The route.
    pub route: Arc<ScriptRoute>,
    /// The paths and files of its site.
    pub map: Arc<dyn Map>,
    /// SERVER_NAME, in lower case; `None` for the address of the server.
    pub server_name: Option<String>,
}

/// Why a process that was started in advance cannot serve: it was not started, or its answer to PROCTOR is no reply, or does not end.
type Failure = Box<dyn std::error::Error>;

/// Waits until processes are to be started in advance. Several workers may wait; one of them is woken.
pub async fn wanted(scripts: &Scripts) {
    scripts.resources().wanted.notified().await;
}

impl Starter {
    /// Starts the processes that the pools of the route want in advance, each in a task on this worker. `next_id` is for PROCTOR requests.
    pub fn start_wanted(self, mut next_id: impl FnMut() -> UniqueId) {
        for lease in self.route.pools.take_advance() {
            let root = Target { path: "/".into(), query: None, raw: "/".into() };
            let first = self.job(lease.pool.script.clone(), root, next_id());
            let key = lease.pool.script.pool_key().to_owned();
            let prepared = self.route.pools.prepared().into_iter();
            let asked = prepared.filter(|prepared| *prepared.script.pool_key() == *key);
            let questions: Vec<Job> = asked
                .filter_map(|Prepared { script, target }| Some(self.job(script, target?, next_id())))
                .collect();
            tokio::task::spawn_local(async move {
                if let Err(failure) = start(&first, &questions, lease).await {
                    let file = first.script.file.display();
                    first.scripts.warn(format_args!(
                        "script {file}: a process that was started in advance cannot serve: {failure}"
                    ));
                }
            });
        }
    }

    fn job(&self, script: Script, target: Target, id: UniqueId) -> Job {
        Job {
            scripts: Rc::clone(&self.scripts),
            request: ScriptRequest {
                target,
                redirect_url: None,
                method: Method::from_bytes(METHOD.as_bytes()).unwrap_or_default(),
                version: Version::HTTP_11,
                fields: Rc::default(),
                server_name: self.server_name.clone(),
                id,
                endpoints: Endpoints::UNIX,
                client_name: None,
                is_https: false,
                tls_info: None,
                user: None,
                authorization: None,
                agent: None,
                arrived: SystemTime::now(),
                progress: Rc::default(),
            },
            script,
            route: Arc::clone(&self.route),
            map: Arc::clone(&self.map),
            compression: None,
            tracer: Tracer::NONE,
        }
    }
}

/// Whether the file of a script does not exist. False if its file system does not answer.
async fn is_gone(file: PathBuf) -> bool {
    let look = move || matches!(file.metadata(), Err(error) if error.kind() == ErrorKind::NotFound);
    let looked = look_elsewhere(LookupShare::UNKNOWN, look);
    looked.within(sleep(FIND_TIMEOUT)).await.unwrap_or(false)
}

async fn start(first: &Job, questions: &[Job], mut lease: Lease) -> Result<(), Failure> {
    let file = &first.script.file;
    if first.script.engine.is_none() && is_gone(file.clone()).await {
        lease.pool.lock().pool.set_gone();
        return Err(Fault::from(ServerFault::Missing(file.as_path().into())).into());
    }
    lease.take();
    let mut idle = cgiplus::start(first, &mut lease, &ScriptEvents::none()).await?;
    let (mut age, mut trial) = (Age::New, Trial::None);
    for question in questions {
        (idle, lease) = ask(question, idle, lease, age).await?;
        (age, trial) = (Age::Used, Trial::Passed);
    }
    lease.ready(idle, trial);
    Ok(())
}

/// Asks the process one question, and discards its reply. The process is stopped if its reply is invalid.
async fn ask(job: &Job, idle: IdleProcess, lease: Lease, age: Age) -> Result<(IdleProcess, Lease), Failure> {
    let relay = cgiplus::begin(job, idle, None, None, &ScriptEvents::none()).with_record(age);
    let mut conversation = Conversation::new(job, relay, lease, Audience::Gone);
    let limit = job.settings().timeouts.reply;
    let failure = match timeout(limit, discard_reply(&mut conversation)).await {
        Ok(Ok(())) => return reclaim(conversation).await.ok_or_else(|| UNUSABLE.into()),
        Ok(Err(failure)) => failure,
        Err(_) => format!("its reply to PROCTOR has not ended within {limit:?} (reply_timeout)").into(),
    };
    if let Some(link) = &conversation.link {
        link.lease.note_failure();
    }
    Ending::Stop(EndCause::Fault).carry_out(&mut conversation);
    Err(failure)
}

async fn discard_reply(conversation: &mut Conversation) -> Result<(), Failure> {
    conversation.head().await?;
    conversation.begin_unwanted_body(StatusCode::OK);
    while let Some(chunk) = poll_fn(|context| conversation.poll_output(context)).await {
        chunk?;
    }
    match Ending::of_written(conversation)? {
        Ending::Complete => Ok(()),
        _ => Err(UNUSABLE.into()),
    }
}
