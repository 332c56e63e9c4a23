//! The thread that writes the server log.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use sluice_log::{LineFile, RecentLines};
use tracing::Level;

use super::collector;
use super::outbox::Outbox;
use super::queue::{Batch, Body, Command, Item, Line, Queue};
use super::style::Style;

/// How long to wait before lines that the disk refused are tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Starts the thread. It ends with the process, or with `Command::End`.
pub(super) fn start(
    queue: Arc<Queue>,
    style: Style,
    is_json: Arc<AtomicBool>,
    recent: Arc<RecentLines>,
    outbox: Arc<Outbox>,
) {
    let writer = Writer {
        style,
        is_json,
        file: None,
        is_on_stderr: true,
        recent,
        outbox,
    };
    let thread = std::thread::Builder::new().name("server-log".into());
    // Without the thread there is nowhere to report that it is missing; the start fails soon, because workers need threads too.
    let _ = thread.spawn(move || writer.run(&queue));
}

struct Writer {
    style: Style,
    is_json: Arc<AtomicBool>,
    file: Option<Box<LineFile>>,
    is_on_stderr: bool,
    recent: Arc<RecentLines>,
    outbox: Arc<Outbox>,
}

impl Writer {
    fn run(mut self, queue: &Queue) {
        collector::mark_writer();
        loop {
            let is_waiting = self.file.as_ref().is_some_and(|file| file.is_waiting());
            let batch = queue.take(is_waiting.then_some(RETRY));
            if self.write(batch) {
                queue.set_ended();
                return;
            }
            if let Some(file) = self.file.as_mut().filter(|file| file.is_waiting()) {
                file.retry();
            }
        }
    }

    /// Writes lines and obeys commands. Returns whether that was the end.
    fn write(&mut self, batch: Batch) -> bool {
        let mut lines = Vec::new();
        let mut is_end = false;
        for item in batch.items {
            match item {
                Item::Line(line) => lines.push(line),
                Item::Command(command) => {
                    self.write_lines(&lines);
                    lines.clear();
                    is_end |= self.obey(command);
                }
            }
        }
        lines.extend((batch.lost > 0).then(|| self.lost(batch.lost)));
        self.write_lines(&lines);
        if is_end && let Some(file) = &mut self.file {
            file.finish();
        }
        is_end
    }

    fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Use(file) => {
                self.is_on_stderr = true;
                let before = mem::replace(&mut self.file, file);
                match (before, &mut self.file) {
                    (Some(before), Some(file)) => file.replace(*before),
                    (Some(mut before), None) => before.finish(),
                    (None, _) => {}
                }
            }
            Command::LeaveStderr => self.is_on_stderr = self.file.is_none(),
            Command::Reopen => {
                if let Some(file) = &mut self.file {
                    file.reopen();
                }
            }
            Command::End => return true,
        }
        false
    }

    fn write_lines(&mut self, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        let shown = |style: Style, is_shown: fn(&Line) -> bool| {
            let mut out = Vec::new();
            let lines = lines.iter().filter(|line| is_shown(line));
            lines.for_each(|line| style.write(&mut out, line));
            out
        };
        if self.is_on_stderr {
            let shown = shown(self.style, |line| !matches!(line.body, Body::Written(_)));
            // If nobody reads standard error any more, there is no better place for its lines.
            let _ = io::stderr().write_all(&shown);
        }
        let plain = shown(Style::Plain, |_| true);
        self.recent.add(&plain);
        self.outbox.add(&plain);
        if let Some(file) = &mut self.file {
            file.write(&plain);
        }
    }

    fn lost(&self, count: u64) -> Line {
        let text = format!("server log: {count} lines were lost here, because they could not be written fast enough");
        Line {
            time: SystemTime::now(),
            level: Level::WARN,
            body: match self.is_json.load(Ordering::Relaxed) {
                true => Body::Json(collector::message_member(&text)),
                false => Body::Text(text),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_about_lost_lines_is_json_like_the_others() {
        for (is_json, start) in [(true, "{\"time\":"), (false, "20")] {
            let writer = Writer {
                style: Style::Plain,
                is_json: Arc::new(AtomicBool::new(is_json)),
                file: None,
                is_on_stderr: true,
                recent: Arc::default(),
                outbox: Arc::default(),
            };
            let mut out = Vec::new();
            Style::Plain.write(&mut out, &writer.lost(3));
            let line = String::from_utf8(out).expect("UTF-8");
            assert!(
                line.starts_with(start) && line.contains("server log: 3 lines"),
                "{line}"
            );
            assert_eq!(line.ends_with("fast enough\"}\n"), is_json, "{line}");
        }
    }
}
