//! An event as a record: a JSON object for programs, and for the page.

use std::time::SystemTime;

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{Content, Direction, Event};
use crate::item::Item;
use crate::line::{hex_digits, text_of};
use crate::timing::{Phase, Timing};

/// An event as a serde value.
#[derive(Clone, Debug, Serialize)]
pub struct Record<'a> {
    /// When, as RFC 3339 writes it, in UTC, to the microsecond.
    pub time: String,
    /// Microseconds since the request's head was complete, or the connection was accepted.
    pub since_us: u64,
    /// The part of the server that noted it.
    pub module: &'a str,
    /// The kind of event.
    pub item: Item,
    /// The number of the connection or exchange.
    pub number: u64,
    /// The number of the exchange's connection, if that is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// The id of the exchange, as in the logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    /// The direction of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The number of bytes, with those that are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// The bytes of these that are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<usize>,
    /// The text, or bytes that are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Other bytes, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
    /// The phases of the request, one after the other; for the item timing only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<PhaseTime>>,
}

/// The time of a phase of a request, in microseconds after its head was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseTime {
    /// The moment at which it ended.
    pub phase: Phase,
    /// A description of the phase.
    pub about: &'static str,
    /// When it began.
    pub begin_us: u64,
    /// When it ended.
    pub end_us: u64,
}

fn phases(timing: &Timing) -> Vec<PhaseTime> {
    let mut begin_us = 0;
    let times = timing.moments.iter().map(|moment| PhaseTime {
        phase: moment.phase,
        about: moment.phase.description(),
        begin_us: std::mem::replace(&mut begin_us, moment.at_us),
        end_us: moment.at_us,
    });
    times.collect()
}

impl<'a> Record<'a> {
    /// The record for programs: bytes are a text if they are UTF-8, and hexadecimal digits otherwise.
    #[must_use]
    pub fn new(event: &'a Event) -> Record<'a> {
        let mut record = Record::head(event);
        match &event.content {
            Content::Text(text) => record.text = Some(text.clone()),
            Content::Bytes { direction, bytes, omitted } => {
                record.direction = Some(*direction);
                record.bytes = Some(bytes.len() + omitted);
                record.omitted = Some(*omitted).filter(|omitted| *omitted > 0);
                match std::str::from_utf8(bytes) {
                    Ok(text) => record.text = Some(text.to_owned()),
                    Err(_) => record.hex = Some(hex(bytes)),
                }
            }
        }
        record.with_phases()
    }

    fn with_phases(mut self) -> Record<'a> {
        if self.item == Item::Timing {
            let timing = self.text.as_deref().and_then(|text| text.parse().ok());
            self.phases = timing.map(|timing| phases(&timing));
        }
        self
    }

    /// The record for the page: its text is what a terminal shows, with bytes as a hex dump where they are not text.
    #[must_use]
    pub fn shown(event: &'a Event) -> Record<'a> {
        Record { text: Some(text_of(event)), ..Record::head(event) }.with_phases()
    }

    fn head(event: &'a Event) -> Record<'a> {
        Record {
            time: rfc3339(event.at),
            since_us: u64::try_from(event.since.as_micros()).unwrap_or(u64::MAX),
            module: event.module,
            item: event.item,
            number: event.number,
            connection: event.connection,
            id: event.id.as_deref(),
            direction: None,
            bytes: None,
            omitted: None,
            text: None,
            hex: None,
            phases: None,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| hex_digits(*byte)).collect()
}

/// A time as `2026-11-22T14:05:08.672341Z` (RFC 3339).
fn rfc3339(at: SystemTime) -> String {
    format!("{:.6}", Timestamp::try_from(at).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn event(content: Content) -> Event {
        Event {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_709_215_508_672_341),
            since: Duration::from_micros(1500),
            module: "script",
            item: Item::Mailbox,
            number: 12,
            connection: None,
            id: Some("abc".into()),
            content,
        }
    }

    fn bytes(bytes: &[u8]) -> Event {
        let (direction, bytes) = (Direction::Sent, bytes.to_vec());
        event(Content::Bytes { direction, bytes, omitted: 3 })
    }

    #[test]
    fn a_record_is_json() {
        let text = event(Content::Text("a\nb".into()));
        assert_eq!(
            serde_json::to_string(&Record::new(&text)).unwrap(),
            r#"{"time":"2024-02-29T14:05:08.672341Z","since_us":1500,"module":"script","item":"mailbox","number":12,"id":"abc","text":"a\nb"}"#
        );
        let json = serde_json::to_string(&Record::new(&bytes(b"hello"))).unwrap();
        assert!(
            json.ends_with(r#""direction":"sent","bytes":8,"omitted":3,"text":"hello"}"#),
            "{json}"
        );
        let json = serde_json::to_string(&Record::new(&bytes(b"\xff\0"))).unwrap();
        assert!(json.ends_with(r#""bytes":5,"omitted":3,"hex":"ff00"}"#), "{json}");
        let shown = bytes(b"\xff\0");
        assert!(Record::shown(&shown).text.unwrap().contains("000000  ff 00 "));
    }

    #[test]
    fn the_times_of_a_request_have_phases() {
        let mut timing = Timing::default();
        timing.add(Phase::Decided, Duration::from_micros(120));
        timing.add(Phase::End, Duration::from_micros(12_345));
        let mut event = event(Content::Text(timing.to_string()));
        event.item = Item::Timing;
        let phases = Record::new(&event).phases.unwrap();
        let spans: Vec<_> = phases
            .iter()
            .map(|phase| (phase.phase, phase.begin_us, phase.end_us))
            .collect();
        assert_eq!(spans, [(Phase::Decided, 0, 120), (Phase::End, 120, 12_345)]);
        let json = serde_json::to_string(&Record::shown(&event)).unwrap();
        assert!(
            json.ends_with(r#"{"phase":"end","about":"end","begin_us":120,"end_us":12345}]}"#),
            "{json}"
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, date) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_454, "2026-01-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400);
            assert_eq!(rfc3339(at), format!("{date}T00:00:00.000000Z"));
        }
    }
}
