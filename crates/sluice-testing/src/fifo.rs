//! FIFOs that synchronise a test with a script: a `FifoReader` reports how far the script has come, a `Gate` holds it there.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::DEADLINE;
use crate::program::spawn;

/// A FIFO that scripts write to and the test reads.
///
/// The test holds a separate write end, so that the FIFO stays the same while scripts open and close it: nothing is lost that is written just as the last
/// script closes it. `end` closes the test's own write end, to learn when no script has the FIFO open.
pub struct FifoReader {
    path: PathBuf,
    events: Receiver<Event>,
    own_end: Arc<Mutex<Option<File>>>,
    is_closed: Arc<AtomicBool>,
}

#[derive(Debug, PartialEq)]
enum Event {
    Line(String),
    /// No process has it open for writing.
    End,
}

impl FifoReader {
    /// Creates the FIFO and starts to read it.
    pub fn make(path: PathBuf) -> FifoReader {
        make_fifo(&path);
        let (sender, events) = channel();
        let own_end = Arc::new(Mutex::new(Some(open_both(&path).unwrap())));
        let is_closed = Arc::new(AtomicBool::new(false));
        let mut fifo = BufReader::new(File::open(&path).unwrap());
        let (reopen_path, own, closed) = (path.clone(), Arc::clone(&own_end), Arc::clone(&is_closed));
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while let Ok(length) = fifo.read_until(b'\n', &mut line) {
                let event = if length > 0 {
                    let text = String::from_utf8_lossy(&line);
                    Event::Line(text.trim_end_matches('\n').to_owned())
                } else if closed.load(Ordering::SeqCst) {
                    return;
                } else {
                    // Reopen before the event is sent, so that the test may call `end` again at once.
                    *own.lock().unwrap_or_else(PoisonError::into_inner) = open_both(&reopen_path).ok();
                    Event::End
                };
                line.clear();
                let _ = sender.send(event);
            }
        });
        FifoReader { path, events, own_end, is_closed }
    }

    /// The next line that a script writes; fails the test when none comes.
    #[track_caller]
    pub fn line(&self) -> String {
        loop {
            match self.events.recv_timeout(DEADLINE) {
                Ok(Event::Line(line)) => return line,
                Ok(Event::End) => {}
                Err(_) => panic!("no line was written to {}", self.path.display()),
            }
        }
    }

    /// Waits until no process has the FIFO open; returns the lines that came before that.
    #[track_caller]
    pub fn end(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.close_own_end();
        loop {
            match self.events.recv_timeout(DEADLINE) {
                Ok(Event::Line(line)) => lines.push(line),
                Ok(Event::End) => return lines,
                Err(_) => panic!("{} is still open; lines read from it: {lines:?}", self.path.display()),
            }
        }
    }

    /// The next line, if one arrives within this time. An end is not a line.
    pub fn line_within(&self, time: Duration) -> Option<String> {
        let until = Instant::now() + time;
        loop {
            match self
                .events
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(Event::Line(line)) => return Some(line),
                Ok(Event::End) => {}
                Err(_) => return None,
            }
        }
    }

    /// True if no unread line is waiting.
    pub fn is_silent(&self) -> bool {
        match self.events.try_recv() {
            Ok(event) => event == Event::End,
            Err(_) => true,
        }
    }

    /// True if nothing arrives within this time. Only for what must *not* happen; keep it short.
    pub fn is_silent_for(&self, time: Duration) -> bool {
        self.events.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }
}

impl FifoReader {
    fn close_own_end(&self) {
        *self.own_end.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for FifoReader {
    /// Makes the thread read end-of-file and exit.
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.close_own_end();
    }
}

/// A FIFO that the test writes to and scripts read from: `read line < "$TEST_DIR/name"` waits there.
pub struct Gate(File);

impl Gate {
    /// Creates the FIFO.
    pub fn make(path: &Path) -> Gate {
        make_fifo(path);
        Gate(open_both(path).unwrap())
    }

    /// Releases one reader that waits for a line.
    pub fn open(&mut self) {
        self.write("go\n");
    }

    /// Writes text for the script to read.
    pub fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }
}

fn open_both(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn make_fifo(path: &Path) {
    let made = spawn(Command::new("mkfifo").arg(path))
        .and_then(|mut mkfifo| mkfifo.wait())
        .unwrap();
    assert!(made.success(), "mkfifo {}", path.display());
}
