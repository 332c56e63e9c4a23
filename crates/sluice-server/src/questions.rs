//! Questions to the workers: closures that run on a worker's thread, between two events.
//!
//! A report may be asked of any worker, and must know what the others hold.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::context::Context;

/// How long a worker may take to answer a question. One that is busy for longer is left out of a report.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Questions that wait for a worker at once; further ones are not answered.
const QUESTIONS_MAX: usize = 64;

pub(crate) type WorkerQuestion = Box<dyn FnOnce(&Context) + Send>;

pub(crate) struct Questions(Box<[mpsc::Sender<WorkerQuestion>]>);

impl Questions {
    pub(crate) fn new(workers: usize) -> (Questions, Vec<mpsc::Receiver<WorkerQuestion>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::channel(QUESTIONS_MAX)).unzip();
        (Questions(senders.into_boxed_slice()), receivers)
    }

    /// Asks every worker, and waits for the answers without blocking the event loop. `None` for a worker that does not answer in time.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&Context) -> T + Clone + Send + 'static,
    ) -> Vec<Option<T>> {
        let ask = |worker: &mpsc::Sender<WorkerQuestion>| {
            let (answer, answered) = oneshot::channel();
            let question = question.clone();
            let asked = worker.try_send(Box::new(move |worker| drop(answer.send(question(worker)))));
            asked.is_ok().then_some(answered)
        };
        let asked: Vec<_> = self.0.iter().map(ask).collect();
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut answers = Vec::new();
        for answered in asked {
            answers.push(match answered {
                Some(answered) => timeout_at(deadline, answered).await.ok().and_then(Result::ok),
                None => None,
            });
        }
        answers
    }
}

pub(crate) async fn answer(context: Rc<Context>, mut questions: mpsc::Receiver<WorkerQuestion>) {
    while let Some(question) = questions.recv().await {
        question(&context);
    }
}
