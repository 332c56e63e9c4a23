//! `sluice watch` beside a server under test.

use std::process::{Child, ExitStatus};

use crate::DEADLINE;
use crate::lines::Lines;
use crate::program::{interruptible, signal, spawn};
use crate::server::Server;

/// A running `sluice watch`. Dropping it kills it.
pub struct Watcher {
    child: Child,
    output: Lines,
    errors: Lines,
}

/// A `sluice watch` that has exited.
pub struct Watched {
    pub status: ExitStatus,
    pub output: String,
    pub errors: String,
}

impl Watcher {
    /// Starts it with these options, and waits until it watches.
    #[track_caller]
    pub fn start(server: &Server, options: &[&str]) -> Watcher {
        let watcher = Watcher::start_silent(server, options);
        watcher.output.wait_for(1, |line| line.contains("watching"));
        watcher
    }

    /// Starts it as `start` does, but waits for nothing: for a watch that writes to a file.
    #[track_caller]
    pub fn start_silent(server: &Server, options: &[&str]) -> Watcher {
        let mut command = interruptible(server.setup().directory());
        command.arg("watch").args(options);
        let mut child = spawn(&mut command).unwrap();
        Watcher {
            output: Lines::read(child.stdout.take().unwrap()),
            errors: Lines::read(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Waits for a line with this text.
    #[track_caller]
    pub fn line(&self, text: &str) -> String {
        self.lines(1, text).swap_remove(0)
    }

    /// Waits for so many lines with this text.
    #[track_caller]
    pub fn lines(&self, count: usize, text: &str) -> Vec<String> {
        self.output.wait_for(count, |line| line.contains(text))
    }

    /// The output so far.
    pub fn text(&self) -> String {
        self.output.text()
    }

    /// Sends a signal: `INT`, `KILL`, `STOP`.
    pub fn signal(&self, name: &str) {
        assert!(
            signal(self.child.id(), name),
            "sluice watch has ended: {}",
            self.errors.text()
        );
    }

    /// Waits until it exits by itself.
    #[track_caller]
    pub fn wait_end(mut self) -> Watched {
        let has_ended = self.errors.wait_end(DEADLINE) && self.output.wait_end(DEADLINE);
        assert!(has_ended, "sluice watch does not end:\n{}", self.output.text());
        Watched {
            status: self.child.wait().unwrap(),
            output: self.output.text(),
            errors: self.errors.text(),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
