//! How a line is shown in one place: with time and level, in colour, with the priority that the journal expects, or as JSON.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use jiff::Timestamp;
use tracing::Level;

use super::queue::{Body, Line};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Colour,
    /// A priority (sd-daemon(3)) and the message: the journal adds the time by itself.
    Journal,
}

impl Style {
    pub(super) fn of_stderr() -> Style {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let stderr = std::io::stderr();
        if is_journal(&variable("JOURNAL_STREAM"), &stderr) {
            return Style::Journal;
        }
        // https://no-color.org: any value but the empty one.
        match stderr.is_terminal() && variable("NO_COLOR").is_empty() && variable("TERM") != "dumb" {
            true => Style::Colour,
            false => Style::Plain,
        }
    }

    pub(super) fn write(self, out: &mut Vec<u8>, line: &Line) {
        if let Body::Written(lines) = &line.body {
            return out.extend_from_slice(lines.as_bytes());
        }
        let before = self.priority(line.level);
        out.extend_from_slice(before.as_bytes());
        match &line.body {
            Body::Text(text) => {
                out.extend_from_slice(self.head(line).as_bytes());
                // Each line is an entry of the journal.
                out.extend_from_slice(text.replace('\n', &format!("\n{before}")).as_bytes());
            }
            Body::Json(members) => {
                out.push(b'{');
                if self != Style::Journal {
                    let (time, level) = (time(line.time), shown(line.level).name.to_lowercase());
                    out.extend_from_slice(format!("\"time\":\"{time}\",\"level\":\"{level}\",").as_bytes());
                }
                out.extend_from_slice(members);
                out.push(b'}');
            }
            Body::Written(_) => {}
        }
        out.push(b'\n');
    }

    /// A message on standard error that is not a line of the log: only the journal needs anything before each of its lines.
    pub(super) fn failure(self, message: &str) -> String {
        let before = self.priority(Level::ERROR);
        message.lines().map(|line| format!("{before}{line}\n")).collect()
    }

    fn priority(self, level: Level) -> String {
        match self {
            Style::Journal => format!("<{}>", shown(level).priority),
            Style::Plain | Style::Colour => String::new(),
        }
    }

    fn head(self, line: &Line) -> String {
        let (time, Shown { name, colour, .. }) = (time(line.time), shown(line.level));
        match self {
            Style::Journal => String::new(),
            Style::Plain => format!("{time} {name:<5} "),
            Style::Colour => format!("\x1b[2m{time}\x1b[0m {colour}{name:<5}\x1b[0m "),
        }
    }
}

/// Whether standard error is the stream of the journal that a service manager has opened: its device and inode, as in systemd.exec(5).
fn is_journal(stream: &str, stderr: &impl AsFd) -> bool {
    let about = || {
        std::fs::File::from(stderr.as_fd().try_clone_to_owned().ok()?)
            .metadata()
            .ok()
    };
    !stream.is_empty() && about().is_some_and(|about| stream == format!("{}:{}", about.dev(), about.ino()))
}

/// In UTC with milliseconds (RFC 3339).
fn time(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    format!("{time:.3}")
}

struct Shown {
    name: &'static str,
    /// The priority of syslog(3).
    priority: u8,
    /// On a terminal: red, yellow, green, blue.
    colour: &'static str,
}

fn shown(level: Level) -> Shown {
    let (name, priority, colour) = match level {
        Level::ERROR => ("ERROR", 3, "\x1b[31m"),
        Level::WARN => ("WARN", 4, "\x1b[33m"),
        Level::INFO => ("INFO", 6, "\x1b[32m"),
        Level::DEBUG => ("DEBUG", 7, "\x1b[34m"),
        Level::TRACE => ("TRACE", 7, "\x1b[34m"),
    };
    Shown { name, priority, colour }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn shown(style: Style, level: Level, body: Body) -> String {
        let mut out = Vec::new();
        let line = Line {
            time: UNIX_EPOCH + Duration::from_millis(1_795_330_085_007),
            level,
            body,
        };
        style.write(&mut out, &line);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_line_has_time_level_and_text() {
        let text = || Body::Text("draining a=1".to_owned());
        let two = Body::Text("one\n    | <0>two".to_owned());
        assert_eq!(shown(Style::Journal, Level::WARN, two), "<4>one\n<4>    | <0>two\n");
        assert_eq!(
            shown(Style::Plain, Level::WARN, text()),
            "2026-11-22T06:48:05.007Z WARN  draining a=1\n"
        );
        let coloured = shown(Style::Colour, Level::ERROR, text());
        assert!(coloured.contains("\u{1b}[31mERROR\u{1b}[0m draining"), "{coloured:?}");
        for (level, expected) in [
            (Level::ERROR, "<3>"),
            (Level::WARN, "<4>"),
            (Level::INFO, "<6>"),
            (Level::DEBUG, "<7>"),
        ] {
            assert_eq!(
                shown(Style::Journal, level, text()),
                format!("{expected}draining a=1\n")
            );
        }
    }

    #[test]
    fn a_json_line_is_an_object_and_the_journal_gets_no_time() {
        let members = || Body::Json(b"\"message\":\"a\"".to_vec());
        assert_eq!(
            shown(Style::Plain, Level::INFO, members()),
            "{\"time\":\"2026-11-22T06:48:05.007Z\",\"level\":\"info\",\"message\":\"a\"}\n"
        );
        assert_eq!(
            shown(Style::Journal, Level::INFO, members()),
            "<6>{\"message\":\"a\"}\n"
        );
    }

    #[test]
    fn the_journal_is_recognized_by_device_and_inode() {
        let file = tempfile::tempfile().expect("a temporary file");
        let about = file.metadata().expect("a file");
        assert!(is_journal(&format!("{}:{}", about.dev(), about.ino()), &file));
        assert!(!is_journal(&format!("{}:{}", about.dev(), about.ino() + 1), &file));
        assert!(!is_journal("", &file));
    }
}
