//! Times as text for lines: each time format is written once per second and thread, and cached.

use std::cell::RefCell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::line;

/// Texts cached per thread, more than a server has time formats. Further ones replace the oldest.
const TEXTS_MAX: usize = 16;

#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub instant: Instant,
    /// Seconds since 1970.
    pub second: i64,
}

impl Now {
    pub(crate) fn read() -> Now {
        Now {
            instant: Instant::now(),
            second: second_of(SystemTime::now()),
        }
    }
}

pub(crate) fn second_of(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or_default()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// The server's own, as in Apache's logs.
    Local,
    Utc,
}

struct Clock {
    zone: TimeZone,
    texts: Vec<Text>,
    oldest: usize,
}

struct Text {
    format: Box<str>,
    zone: Zone,
    second: i64,
    text: String,
}

/// Calls `take` with a second since 1970 as text, in a format of strftime(3) without fractions, with the escapes that a line has.
pub(crate) fn with_text(format: &str, zone: Zone, second: i64, take: impl FnOnce(&str)) {
    thread_local! {
        static CLOCK: RefCell<Clock> = RefCell::new(Clock {
            zone: TimeZone::system(),
            texts: Vec::new(),
            oldest: 0,
        });
    }
    CLOCK.with_borrow_mut(|clock| take(clock.text(format, zone, second)));
}

impl Clock {
    fn text(&mut self, format: &str, zone: Zone, second: i64) -> &str {
        let known = self
            .texts
            .iter()
            .position(|text| text.zone == zone && *text.format == *format);
        let index = known.unwrap_or_else(|| self.insert(format, zone));
        let cached = &mut self.texts[index];
        if cached.second != second {
            let zone = match zone {
                Zone::Local => self.zone.clone(),
                Zone::Utc => TimeZone::UTC,
            };
            cached.text = write(format, zone, second);
            cached.second = second;
        }
        &cached.text
    }

    fn insert(&mut self, format: &str, zone: Zone) -> usize {
        let text = Text {
            format: format.into(),
            zone,
            second: i64::MIN,
            text: String::new(),
        };
        if self.texts.len() < TEXTS_MAX {
            self.texts.push(text);
            return self.texts.len() - 1;
        }
        let index = self.oldest;
        self.oldest = (index + 1) % TEXTS_MAX;
        self.texts[index] = text;
        index
    }
}

/// Formats a time. `-` if that fails, although the format was checked when it was read (`log_format`).
fn write(format: &str, zone: TimeZone, second: i64) -> String {
    let time = Timestamp::from_second(second).unwrap_or_default();
    let text = strtime::format(format, &time.to_zoned(zone)).unwrap_or_else(|_| "-".to_owned());
    let mut escaped = Vec::with_capacity(text.len());
    line::Text(&mut escaped).quoted(text.as_bytes());
    // It is ASCII.
    String::from_utf8(escaped).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock {
            zone: TimeZone::fixed(jiff::tz::offset(2)),
            texts: Vec::new(),
            oldest: 0,
        }
    }

    #[test]
    fn times_follow_their_zone_and_the_second() {
        let mut clock = clock();
        assert_eq!(clock.text("%F %T %z", Zone::Local, 0), "1970-01-01 02:00:00 +0200");
        assert_eq!(clock.text("%F %T %z", Zone::Utc, 0), "1970-01-01 00:00:00 +0000");
        assert_eq!(clock.text("%F %T %z", Zone::Local, 59), "1970-01-01 02:00:59 +0200");
        assert_eq!(clock.texts.len(), 2);
    }

    #[test]
    fn more_formats_than_the_cache_holds_are_correct() {
        let mut clock = clock();
        for round in 0..3 {
            for number in 0..TEXTS_MAX + 2 {
                let format = format!("{number} %S");
                assert_eq!(clock.text(&format, Zone::Utc, round), format!("{number} 0{round}"));
            }
        }
        assert_eq!(clock.texts.len(), TEXTS_MAX);
    }
}
