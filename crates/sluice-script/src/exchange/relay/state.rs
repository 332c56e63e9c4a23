//! The state of an exchange as the relay sees it: the request on its way to the script, then the script's reply.
//!
//! ```text
//!   the record is in CGIPLUSIN            the request is in the environment (CGI)
//!        │                                     │
//!        ▼    output, and it has read of it    ▼    the head is complete
//!     Unread ───────────────────────────────▶ Head ──────────────────────▶ Body
//!        │                                     │                            │
//!        ├─ output, and it has read nothing ─▶ Overtaken                    │
//!        │                                     │                            │
//!        ├─────────────────────────────────────┴────────────────────────────┤
//!        ├─ the end sentinel ─────────▶ Ended(part)    ─ the head is complete ─▶ Ended(Body)
//!        ├─ the mailbox is closed ────▶ Closed(part)   ─ the head is complete ─▶ Closed(Body)
//!        └─ it waits for what never comes ─▶ Stuck
//! ```
//! The part says how far the reply was. Overtaken and Stuck are faults: nothing follows.

/// Whether a process has served requests before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    New,
    Used,
}

/// How the script gets its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The environment of the process (CGI).
    Environment,
    /// A record in CGIPLUSIN; the process is kept afterwards.
    Record(Age),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The script had read nothing of the record when that was last checked, and has written nothing that counts.
    Unread,
    /// The script had read nothing of the record when it wrote.
    Overtaken,
    /// The script has its request: what it writes from now on is taken for its reply, whose head is awaited.
    Head,
    /// The head of the reply is complete: bytes of the memory buffer may follow.
    Body,
    /// The end sentinel has arrived; the memory buffer may still hold bytes.
    Ended(Part),
    /// The mailbox is closed, and its last bytes have been delivered.
    Closed(Part),
    /// The script waits for what never comes.
    Stuck,
}

/// How far the reply is when its end comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Nothing,
    /// The head is not complete.
    Head,
    /// The head is complete.
    Body,
}

impl State {
    pub(super) fn new(delivery: Delivery) -> State {
        match delivery {
            Delivery::Environment => State::Head,
            Delivery::Record(_) => State::Unread,
        }
    }

    pub(super) fn read(self) -> State {
        match self {
            State::Unread => State::Head,
            other => other,
        }
    }

    /// The script has written before it read its request.
    pub(super) fn overtake(self) -> State {
        match self {
            State::Unread => State::Overtaken,
            other => other,
        }
    }

    pub(super) fn begin_body(self) -> State {
        match self {
            State::Unread | State::Head | State::Body => State::Body,
            State::Ended(_) => State::Ended(Part::Body),
            State::Closed(_) => State::Closed(Part::Body),
            fault @ (State::Overtaken | State::Stuck) => fault,
        }
    }

    pub(super) fn end(self) -> State {
        self.part().map_or(self, State::Ended)
    }

    pub(super) fn close(self) -> State {
        self.part().map_or(self, State::Closed)
    }

    /// The part of the reply; `None` after a fault.
    fn part(self) -> Option<Part> {
        match self {
            State::Unread => Some(Part::Nothing),
            State::Head => Some(Part::Head),
            State::Body => Some(Part::Body),
            State::Ended(part) | State::Closed(part) => Some(part),
            State::Overtaken | State::Stuck => None,
        }
    }

    pub(super) fn has_head(self) -> bool {
        self.part() == Some(Part::Body)
    }

    /// Whether nothing of the request was read when that was last checked, and nothing was written.
    pub(super) fn is_unread(self) -> bool {
        self.part() == Some(Part::Nothing)
    }

    /// Whether the script may write more.
    pub(super) fn is_open(self) -> bool {
        !self.has_ended() && !self.is_closed()
    }

    pub(super) fn has_ended(self) -> bool {
        matches!(self, State::Ended(_))
    }

    pub(super) fn is_closed(self) -> bool {
        matches!(self, State::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [State; 11] = [
        State::Unread,
        State::Overtaken,
        State::Head,
        State::Body,
        State::Ended(Part::Nothing),
        State::Ended(Part::Head),
        State::Ended(Part::Body),
        State::Closed(Part::Nothing),
        State::Closed(Part::Head),
        State::Closed(Part::Body),
        State::Stuck,
    ];

    #[test]
    fn a_reply_goes_from_the_request_to_its_end() {
        let kept = State::new(Delivery::Record(Age::Used));
        assert!(kept.is_unread() && kept.is_open() && !kept.has_head());
        assert_eq!(kept.read(), State::new(Delivery::Environment));
        let body = kept.read().begin_body();
        assert!(body.has_head() && body.is_open() && !body.is_unread());
        assert!(body.end().has_ended() && body.end().has_head());
        assert!(body.close().is_closed() && body.close().has_head());
    }

    #[test]
    fn only_an_unread_request_is_read_or_overtaken() {
        for state in ALL.into_iter().filter(|state| *state != State::Unread) {
            assert_eq!((state.read(), state.overtake()), (state, state));
        }
        assert_eq!(State::Unread.overtake(), State::Overtaken);
    }

    #[test]
    fn an_end_before_the_head_is_complete_keeps_how_far_the_reply_was() {
        let unasked = State::Unread.close();
        assert!(unasked.is_unread() && unasked.is_closed());
        let headless = State::Head.end();
        assert!(headless.has_ended() && !headless.has_head());
        assert_eq!(
            headless.begin_body(),
            State::Ended(Part::Body),
            "an error page that a callout asks for"
        );
        assert_eq!(State::Head.close().begin_body(), State::Closed(Part::Body));
    }

    #[test]
    fn nothing_follows_a_fault() {
        for fault in [State::Overtaken, State::Stuck] {
            for next in [
                fault.read(),
                fault.overtake(),
                fault.begin_body(),
                fault.end(),
                fault.close(),
            ] {
                assert_eq!(next, fault);
            }
            assert!(!fault.has_head() && !fault.is_unread() && fault.is_open());
        }
    }
}
