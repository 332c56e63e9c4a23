//! The stages of an exchange, and how its tracer enters them.
//!
//! Here: one notation of what an exchange does now. A report shows the stage that was entered last, and the timing of WATCH gets a moment from
//! many of the changes. Not here: the moments and their text (`timing`), and the words of the reports (the server).

use std::time::Duration;

use crate::item::Item;
use crate::timing::Phase;
use crate::tracer::Tracer;

/// A stage of an exchange: its current work, or the reason why it waits. In the order in which an exchange can enter them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The server decides what answers.
    #[default]
    Deciding,
    /// The decision is made, and passes the gate: access rules and limits.
    Checking,
    /// A thread verifies the password.
    Password,
    /// The answer to a wrong password is delayed.
    Delaying,
    /// An authentication agent is asked.
    Agent,
    /// The exchange waits in the queue of a throttle.
    Throttle,
    /// Access is granted, and the response is made.
    Responding,
    /// A thread lists a directory, or compresses a file.
    Preparing,
    /// The request body is being stored, before the script gets the request.
    ReadingBody,
    /// The exchange waits for a script process.
    AwaitingProcess,
    /// The script process is being started.
    StartingProcess,
    /// The script has the request, and the head of the response is not sent.
    Running,
    /// The script has written its first byte. Entered only while somebody watches.
    Replying,
    /// The head of the response is sent, and the client takes the response.
    Sending,
    /// The server waits for the next bytes of the body.
    Producing,
    /// The connection has the last byte of the body.
    Sent,
    /// The response was broken off.
    Aborted,
    /// The exchange is over.
    Ended,
}

impl Stage {
    /// Whether the head of the response was sent.
    #[must_use]
    pub fn has_head(self) -> bool {
        self >= Stage::Sending
    }

    /// The stage that the exchange is in after it has entered this one from `before`. An agent's script has stages of its own, but the request
    /// goes on asking the agent.
    fn after(self, before: Stage) -> Stage {
        match before {
            Stage::Agent if (Stage::ReadingBody..=Stage::Replying).contains(&self) => Stage::Agent,
            _ => self,
        }
    }

    /// The moment of the timing at which an exchange enters this stage from `before`. `None` if the time counts for what comes next.
    fn moment(self, before: Stage) -> Option<Phase> {
        match (before, self) {
            (Stage::Password, Stage::Checking | Stage::Delaying) | (Stage::Agent, Stage::Checking) => {
                Some(Phase::Identified)
            }
            (Stage::Delaying, Stage::Checking) => Some(Phase::Delayed),
            (Stage::Throttle, Stage::Checking) => Some(Phase::Admitted),
            (_, Stage::Checking) => Some(Phase::Decided),
            (_, Stage::Responding) => Some(Phase::Granted),
            (Stage::ReadingBody, Stage::AwaitingProcess) => Some(Phase::Stored),
            (_, Stage::Running) => Some(Phase::Process),
            (_, Stage::Replying) => Some(Phase::FirstByte),
            (before, Stage::Sending) if !before.has_head() => Some(Phase::Head),
            (_, Stage::Sent) => Some(Phase::LastByte),
            (_, Stage::Aborted) => Some(Phase::Aborted),
            (_, Stage::Ended) => Some(Phase::End),
            _ => None,
        }
    }
}

impl Tracer {
    /// Notes that the exchange enters a stage, which ends the one before it. While nobody watches it costs one store and one comparison.
    pub fn stage(&self, stage: Stage) {
        self.stage_ago(stage, Duration::ZERO);
    }

    /// Notes that the exchange has entered a stage so much time ago.
    pub fn stage_ago(&self, stage: Stage, ago: Duration) {
        let Some(trace) = self.trace() else { return };
        let before = trace.stage.get();
        trace.stage.set(stage.after(before));
        let Some(inner) = self.wanting(Item::Timing) else {
            return;
        };
        if let Some(phase) = stage.moment(before) {
            inner.add_moment(phase, ago);
        }
    }

    /// The stage that the exchange is in. The first one if it has no place for a watch.
    #[must_use]
    pub fn current_stage(&self) -> Stage {
        self.trace().map_or_else(Stage::default, |trace| trace.stage.get())
    }

    /// Ends the last stage of the exchange, and notes where its time went.
    pub fn end_stages(&self, module: &'static str) {
        self.stage(Stage::Ended);
        self.note_timing(module);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::TracedAttributes;
    use crate::hub::{Hub, WorkerHub};
    use crate::item::Items;
    use crate::spec::Spec;
    use crate::timing::Timing;

    /// The names of the moments of an exchange that goes through these stages.
    fn moments(stages: &[Stage]) -> Vec<&'static str> {
        let hub = Hub::new();
        let items = Items::ALL;
        let watch = hub
            .watch(Spec {
                items,
                ..Spec::default()
            })
            .unwrap();
        let tracer = WorkerHub::new(&hub).exchange(&Tracer::NONE, TracedAttributes::default);
        stages.iter().for_each(|stage| tracer.stage(*stage));
        tracer.end_stages("test");
        let event = watch.take_until(std::time::Instant::now()).events.remove(0);
        let crate::event::Content::Text(text) = &event.content else {
            panic!("the timing is a text")
        };
        let timing: Timing = text.parse().unwrap();
        timing.moments.iter().map(|moment| moment.phase.name()).collect()
    }

    #[test]
    fn a_change_of_the_stage_ends_the_one_before_it() {
        use Stage::*;
        assert_eq!(
            moments(&[Checking, Responding, Sending, Producing, Sending, Sent]),
            ["decided", "granted", "head", "last-byte", "end"]
        );
        assert_eq!(
            moments(&[Checking, Password, Delaying, Checking, Sending, Aborted]),
            ["decided", "identified", "delayed", "head", "aborted", "end"]
        );
        assert_eq!(
            moments(&[Checking, Throttle, Checking, Responding, ReadingBody, AwaitingProcess]),
            ["decided", "admitted", "granted", "stored", "end"]
        );
        assert_eq!(
            moments(&[
                AwaitingProcess,
                StartingProcess,
                Running,
                Replying,
                Checking,
                Preparing,
                Sending
            ]),
            ["process", "first-byte", "decided", "head", "end"]
        );
    }

    #[test]
    fn a_request_asks_its_agent_whatever_the_script_of_the_agent_does() {
        use Stage::*;
        let tracer = Tracer::vacant();
        tracer.stage(Agent);
        for stage in [AwaitingProcess, StartingProcess, Running, Replying] {
            tracer.stage(stage);
            assert_eq!(tracer.current_stage(), Agent);
        }
        tracer.stage(Checking);
        assert_eq!(tracer.current_stage(), Checking);
        assert_eq!(
            moments(&[Checking, Agent, AwaitingProcess, Running, Replying, Checking]),
            ["decided", "process", "first-byte", "identified", "end"]
        );
    }

    #[test]
    fn without_a_place_there_is_no_stage() {
        Tracer::NONE.stage(Stage::Sending);
        assert_eq!(Tracer::NONE.current_stage(), Stage::Deciding);
        assert!(Stage::Producing.has_head() && !Stage::Replying.has_head());
    }
}
