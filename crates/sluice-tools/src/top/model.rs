//! The data that `sluice top` shows: the last snapshot, rates since the one before, and the user's choice of order, filter and line. No clock, no terminal.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use sluice_report::command::{Command, CommandResult, ServerReport};
use sluice_report::requests::{ActiveRequest, RequestList};
use sluice_report::scripts::{Pool, ProcessReport, ProcessRequest};

use super::poller::News;

const MESSAGE_TIME: Duration = Duration::from_secs(8);

const FILTER_CHARACTERS_MAX: usize = 60;

/// The state and the requests of a server at one moment.
pub(super) struct Snapshot {
    pub state: ServerReport,
    pub requests: RequestList,
}

impl Snapshot {
    /// The snapshot in an answer; the messages of one that has none.
    pub(super) fn of(answer: CommandResult) -> Result<Snapshot, String> {
        match (answer.state, answer.requests) {
            (Some(state), Some(requests)) => Ok(Snapshot { state, requests }),
            _ => Err(answer.messages.join("; ")),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Requests,
    Processes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequestOrder {
    #[default]
    Age,
    State,
    Client,
    Bytes,
    Target,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProcessOrder {
    #[default]
    Processor,
    Memory,
    Uses,
    Age,
    Phase,
    Script,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// `None` until there are two snapshots.
    pub requests_per_second: Option<f64>,
    pub bytes_per_second: Option<f64>,
    /// Processor time of each process, as a share of one processor.
    processors: HashMap<i32, f64>,
}

#[derive(Clone, Copy)]
pub(super) struct ProcessLine<'a> {
    pub pool: &'a Pool,
    pub process: &'a ProcessReport,
    /// The processor time as a share of one processor; `None` until it is known.
    pub processor: Option<f64>,
}

impl ProcessLine<'_> {
    /// The script that it runs, or could run.
    pub(super) fn script(&self) -> &str {
        self.process.script.as_deref().unwrap_or(&self.pool.script)
    }
}

#[derive(Default)]
pub(super) struct Model {
    pub snapshot: Option<Snapshot>,
    taken: Option<Instant>,
    pub rates: Rates,
    pub pane: Pane,
    pub request_order: RequestOrder,
    pub process_order: ProcessOrder,
    pub is_reversed: bool,
    pub is_paused: bool,
    pub is_help: bool,
    pub filter: String,
    pub is_editing: bool,
    pub selected: usize,
    message: Option<(String, Instant)>,
    /// Why the server does not answer.
    pub silence: Option<String>,
    /// A command that is asked about before it is given.
    pub question: Option<Command>,
}

impl Model {
    pub(super) fn new(filter: String) -> Model {
        Model { filter, ..Model::default() }
    }

    /// Takes what has come of the server.
    pub(super) fn receive(&mut self, news: News, now: Instant) {
        match news {
            News::Snapshot(snapshot) => {
                self.silence = None;
                if !self.is_paused {
                    self.take(*snapshot, now);
                }
            }
            News::Message(text) => self.message = Some((text, now)),
            News::Silence(why) => self.silence = Some(why),
        }
        self.message
            .take_if(|(_, since)| now.duration_since(*since) > MESSAGE_TIME);
    }

    pub(super) fn take(&mut self, snapshot: Snapshot, now: Instant) {
        self.rates = match (&self.snapshot, self.taken) {
            (Some(before), Some(taken)) if before.state.pid == snapshot.state.pid => {
                rates(before, &snapshot, now.duration_since(taken).as_secs_f64())
            }
            _ => Rates::default(),
        };
        self.snapshot = Some(snapshot);
        self.taken = Some(now);
        self.select_by(0);
    }

    pub(super) fn requests(&self) -> Vec<&ActiveRequest> {
        let requests = self.snapshot.iter().flat_map(|snapshot| &snapshot.requests.requests);
        let mut requests: Vec<_> = requests.filter(|request| self.shows_request(request)).collect();
        requests.sort_by(|one, other| {
            let bytes = |request: &ActiveRequest| request.sent_bytes + request.received_bytes;
            let order = match self.request_order {
                RequestOrder::Age => other.age_ms.cmp(&one.age_ms),
                RequestOrder::State => one.state.cmp(&other.state),
                RequestOrder::Client => one.client.cmp(&other.client),
                RequestOrder::Bytes => bytes(other).cmp(&bytes(one)),
                RequestOrder::Target => (&one.host, &one.target).cmp(&(&other.host, &other.target)),
            };
            self.directed(order).then_with(|| one.id.cmp(&other.id))
        });
        requests
    }

    pub(super) fn processes(&self) -> Vec<ProcessLine<'_>> {
        let pools = self.snapshot.iter().flat_map(|snapshot| &snapshot.state.scripts.pools);
        let lines = pools.flat_map(|pool| {
            pool.processes.iter().map(move |process| ProcessLine {
                pool,
                process,
                processor: process.pid.and_then(|pid| self.rates.processors.get(&pid).copied()),
            })
        });
        let mut lines: Vec<_> = lines.filter(|line| self.shows_process(line)).collect();
        lines.sort_by(|one, other| {
            let memory = |line: &ProcessLine<'_>| line.process.usage.map(|usage| usage.rss_bytes);
            let order = match self.process_order {
                ProcessOrder::Processor => {
                    let share = |line: &ProcessLine<'_>| line.processor.unwrap_or(-1.0);
                    let used = |line: &ProcessLine<'_>| line.process.usage.map(|usage| usage.processor_ms);
                    share(other)
                        .total_cmp(&share(one))
                        .then_with(|| used(other).cmp(&used(one)))
                }
                ProcessOrder::Memory => memory(other).cmp(&memory(one)),
                ProcessOrder::Uses => other.process.uses.cmp(&one.process.uses),
                ProcessOrder::Age => other.process.age_ms.cmp(&one.process.age_ms),
                ProcessOrder::Phase => one.process.phase.cmp(&other.process.phase),
                ProcessOrder::Script => one.script().cmp(other.script()),
            };
            self.directed(order)
                .then_with(|| one.process.pid.cmp(&other.process.pid))
        });
        lines
    }

    fn directed(&self, order: Ordering) -> Ordering {
        if self.is_reversed { order.reverse() } else { order }
    }

    fn shows_request(&self, request: &ActiveRequest) -> bool {
        let texts = [
            &request.id,
            &request.client,
            &request.method,
            &request.host,
            &request.target,
            &request.handler,
            request.user.as_deref().unwrap_or_default(),
            request.script.as_deref().unwrap_or_default(),
            request.state.name(),
        ];
        self.shows(&texts, request.pid)
    }

    fn shows_process(&self, line: &ProcessLine<'_>) -> bool {
        let ProcessLine { pool, process, .. } = line;
        let request = process.request.as_ref();
        let texts: [&str; 7] = [
            &pool.script,
            &pool.site,
            &pool.mode,
            line.script(),
            process.phase.name(),
            request.map_or("", |request| &*request.id),
            request
                .and_then(|request| request.target.as_deref())
                .unwrap_or_default(),
        ];
        self.shows(&texts, process.pid)
    }

    /// Whether a line is shown: one of its texts contains the filter, or it is the process id.
    fn shows(&self, texts: &[&str], pid: Option<i32>) -> bool {
        self.filter.is_empty()
            || texts.iter().any(|text| text.contains(&self.filter))
            || pid.is_some_and(|pid| pid.to_string() == self.filter)
    }

    pub(super) fn change_pane(&mut self) {
        self.pane = match self.pane {
            Pane::Requests => Pane::Processes,
            Pane::Processes => Pane::Requests,
        };
        self.selected = 0;
    }

    /// Sorts the list by its next column.
    pub(super) fn next_order(&mut self) {
        use {ProcessOrder as P, RequestOrder as R};
        match self.pane {
            Pane::Requests => {
                self.request_order = match self.request_order {
                    R::Age => R::State,
                    R::State => R::Client,
                    R::Client => R::Bytes,
                    R::Bytes => R::Target,
                    R::Target => R::Age,
                }
            }
            Pane::Processes => {
                self.process_order = match self.process_order {
                    P::Processor => P::Memory,
                    P::Memory => P::Uses,
                    P::Uses => P::Age,
                    P::Age => P::Phase,
                    P::Phase => P::Script,
                    P::Script => P::Processor,
                }
            }
        }
    }

    pub(super) fn edit_filter(&mut self, edit: impl FnOnce(&mut String)) {
        edit(&mut self.filter);
        if let Some((end, _)) = self.filter.char_indices().nth(FILTER_CHARACTERS_MAX) {
            self.filter.truncate(end);
        }
        self.selected = 0;
    }

    pub(super) fn end_editing(&mut self, filter: String) {
        self.filter = filter;
        self.is_editing = false;
        self.selected = 0;
    }

    pub(super) fn select_by(&mut self, lines: isize) {
        let count = match self.pane {
            Pane::Requests => self.requests().len(),
            Pane::Processes => self.processes().len(),
        };
        self.selected = self.selected.saturating_add_signed(lines).min(count.saturating_sub(1));
    }

    /// The path of the chosen request, or of the chosen process's request, without its query.
    pub(super) fn selected_path(&self) -> Option<String> {
        let target = match self.pane {
            Pane::Requests => &self.requests().get(self.selected)?.target,
            Pane::Processes => self.request_of_process()?.target.as_ref()?,
        };
        target.split('?').next().map(str::to_owned)
    }

    /// The id of the chosen request, or of the chosen process's request.
    pub(super) fn selected_request(&self) -> Option<String> {
        Some(match self.pane {
            Pane::Requests => self.requests().get(self.selected)?.id.clone(),
            Pane::Processes => self.request_of_process()?.id.clone(),
        })
    }

    fn request_of_process(&self) -> Option<&ProcessRequest> {
        self.processes().get(self.selected)?.process.request.as_ref()
    }

    /// The script of the chosen process, or of the chosen request's process.
    fn selected_script(&self) -> Option<String> {
        match self.pane {
            Pane::Requests => self.requests().get(self.selected)?.script.clone(),
            Pane::Processes => Some(self.processes().get(self.selected)?.script().to_owned()),
        }
    }

    pub(super) fn ask_to_retire(&mut self) {
        match self.selected_script() {
            Some(script) => self.question = Some(Command::Retire { script }),
            None => self.say("choose a process, or a request that has one".to_owned()),
        }
    }

    pub(super) fn ask_to_end(&mut self) {
        match self.selected_request() {
            Some(id) => self.question = Some(Command::End { id }),
            None => self.say("choose a request, or a process that has one".to_owned()),
        }
    }

    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_ref().map(|(text, _)| text.as_str())
    }

    pub(super) fn say(&mut self, text: String) {
        self.message = Some((text, self.taken.unwrap_or_else(Instant::now)));
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates are shown with two digits")]
fn rates(before: &Snapshot, after: &Snapshot, seconds: f64) -> Rates {
    if seconds < 0.05 {
        return Rates::default();
    }
    let per_second = |before: u64, after: u64| Some(after.saturating_sub(before) as f64 / seconds);
    let (old, new) = (&before.state.status.requests, &after.state.status.requests);
    let times = |snapshot: &Snapshot| -> HashMap<i32, u64> {
        let processes = snapshot.state.scripts.pools.iter().flat_map(|pool| &pool.processes);
        processes
            .filter_map(|process| Some((process.pid?, process.usage?.processor_ms)))
            .collect()
    };
    let earlier = times(before);
    let share = |(pid, time): (i32, u64)| {
        let used = time.saturating_sub(*earlier.get(&pid)?);
        Some((pid, used as f64 / 1000.0 / seconds))
    };
    Rates {
        requests_per_second: per_second(old.total, new.total),
        bytes_per_second: per_second(old.body_bytes, new.body_bytes),
        processors: times(after).into_iter().filter_map(share).collect(),
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
