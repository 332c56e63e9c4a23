//! Times as text, for lines: each form is written once a second and thread, and copied from there.
//!
//! Here: the server's time zone, and the texts that are kept. Not here: parts of a second, which are numbers (`line`).

use std::cell::RefCell;

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Texts kept by a thread: more forms than a server has formats. What comes beyond takes the place of the oldest.
const TEXTS_MAX: usize = 16;

/// In which zone a time is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// The server's own, as Apache has it.
    Local,
    Utc,
}

struct Clock {
    zone: TimeZone,
    texts: Vec<Text>,
    /// The text that makes room for the next.
    oldest: usize,
}

struct Text {
    form: Box<str>,
    zone: Zone,
    second: i64,
    text: String,
}

/// Hands a second since 1970 over as text, in a form that strftime(3) knows. Parts of a second are none in it.
pub(crate) fn tell(form: &str, zone: Zone, second: i64, take: impl FnOnce(&str)) {
    thread_local! {
        static CLOCK: RefCell<Clock> = RefCell::new(Clock {
            zone: TimeZone::system(),
            texts: Vec::new(),
            oldest: 0,
        });
    }
    CLOCK.with_borrow_mut(|clock| take(clock.text(form, zone, second)));
}

impl Clock {
    fn text(&mut self, form: &str, zone: Zone, second: i64) -> &str {
        let known = self
            .texts
            .iter()
            .position(|text| text.zone == zone && *text.form == *form);
        let place = known.unwrap_or_else(|| self.make_room(form, zone));
        let kept = &mut self.texts[place];
        if kept.second != second {
            let zone = match zone {
                Zone::Local => self.zone.clone(),
                Zone::Utc => TimeZone::UTC,
            };
            kept.text = write(form, zone, second);
            kept.second = second;
        }
        &kept.text
    }

    fn make_room(&mut self, form: &str, zone: Zone) -> usize {
        let text = Text {
            form: form.into(),
            zone,
            second: i64::MIN,
            text: String::new(),
        };
        if self.texts.len() < TEXTS_MAX {
            self.texts.push(text);
            return self.texts.len() - 1;
        }
        let place = self.oldest;
        self.oldest = (place + 1) % TEXTS_MAX;
        self.texts[place] = text;
        place
    }
}

/// A form is made sure of when it is read (`log_format`); one that fails all the same is `-`.
fn write(form: &str, zone: TimeZone, second: i64) -> String {
    let time = Timestamp::from_second(second).unwrap_or_default();
    strtime::format(form, &time.to_zoned(zone)).unwrap_or_else(|_| "-".to_owned())
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
    fn times_are_told_in_their_zone_and_change_with_the_second() {
        let mut clock = clock();
        assert_eq!(clock.text("%F %T %z", Zone::Local, 0), "1970-01-01 02:00:00 +0200");
        assert_eq!(clock.text("%F %T %z", Zone::Utc, 0), "1970-01-01 00:00:00 +0000");
        assert_eq!(clock.text("%F %T %z", Zone::Local, 59), "1970-01-01 02:00:59 +0200");
        assert_eq!(clock.texts.len(), 2);
    }

    #[test]
    fn more_forms_than_there_is_room_for_are_told_rightly() {
        let mut clock = clock();
        for round in 0..3 {
            for number in 0..TEXTS_MAX + 2 {
                let form = format!("{number} %S");
                assert_eq!(clock.text(&form, Zone::Utc, round), format!("{number} 0{round}"));
            }
        }
        assert_eq!(clock.texts.len(), TEXTS_MAX);
    }
}
