//! The terminal: its alternate screen in raw mode, which is restored in every case: at the end, after a panic, and after a signal.

use std::ffi::OsString;
use std::io::{IsTerminal, Stdout, stdout};
use std::os::unix::process::ExitStatusExt;
use std::panic;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind, poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::signal::unix::{SignalKind, signal};

/// The exit statuses after the signals of a closed terminal and of Ctrl-C.
const HUNG_UP: u8 = 128 + 1;
const INTERRUPTED: u8 = 128 + 2;

/// The terminal while the monitor has it. Dropping this restores it.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// 128 and the number of the signal that has arrived; 0 before that.
    signal: Arc<AtomicU8>,
}

pub(super) enum Input {
    /// There is no input, or the size has changed.
    None,
    Key(KeyEvent),
    /// A signal to end, and the exit status that it leads to.
    Signal(u8),
}

impl Screen {
    /// Takes the terminal. The error says why it cannot.
    pub(super) fn open() -> Result<Screen, String> {
        if !stdout().is_terminal() || !std::io::stdin().is_terminal() {
            return Err("standard input and output must be a terminal; use --once or --json otherwise".to_owned());
        }
        let signal = Arc::default();
        watch_signals(&signal)?;
        std::thread::spawn(watch_terminal);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(failed)?;
        Ok(Screen { terminal, signal })
    }

    /// Draws a frame. Ends the program if the terminal is gone.
    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) {
        if self.terminal.draw(render).is_err() {
            // As in `end_if_gone`; the write may have failed a moment before the terminal says that it was closed.
            restore();
            std::process::exit(HUNG_UP.into());
        }
    }

    /// Waits for a key, no longer than this.
    pub(super) fn next(&mut self, limit: Duration) -> Result<Input, String> {
        end_if_gone();
        // `poll` never returns from a terminal that is closed meanwhile, so it does not wait; nor do keys that were read with an earlier one.
        let mut arrived = poll(Duration::ZERO).map_err(failed)?;
        if !arrived {
            wait_for_input(limit);
            end_if_gone();
            arrived = poll(Duration::ZERO).map_err(failed)?;
        }
        let code = self.signal.load(Ordering::Relaxed);
        if code != 0 {
            return Ok(Input::Signal(code));
        }
        if !arrived {
            return Ok(Input::None);
        }
        Ok(match read().map_err(failed)? {
            Event::Key(key) if key.kind == KeyEventKind::Press => Input::Key(key),
            _ => Input::None,
        })
    }

    /// Runs this program with other arguments on the usual screen, and comes back when it has ended.
    pub(super) fn run_aside(&mut self, arguments: &[OsString]) -> Result<(), String> {
        restore();
        let program = std::env::current_exe().map_err(failed);
        let ran = program.and_then(|program| Command::new(program).args(arguments).status().map_err(failed));
        if let Ok(status) = &ran {
            self.forget_interrupt(*status);
        }
        end_if_gone();
        enter()?;
        self.terminal.clear().map_err(failed)?;
        match ran? {
            status if status.success() || status.code().is_none() => Ok(()),
            status => {
                let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
                Err(format!("sluice {}: {status}", words.join(" ")))
            }
        }
    }

    /// Forgets the signal of Ctrl-C: the terminal has sent it to both programs, and it was meant for the other one.
    fn forget_interrupt(&self, status: ExitStatus) {
        let is_interrupted = status.signal() == Some(2);
        // This program may learn of it a little later than the other one has ended.
        let deadline = Instant::now() + Duration::from_secs(1);
        while is_interrupted && self.signal.load(Ordering::Relaxed) == 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let order = Ordering::Relaxed;
        let _ = self.signal.compare_exchange(INTERRUPTED, 0, order, order);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Waits until the terminal has input or is closed, or a signal arrives, no longer than this.
fn wait_for_input(limit: Duration) {
    let input = std::io::stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    let limit = Timespec::try_from(limit).unwrap_or_default();
    // A signal is no error: what has happened is found out by the next call.
    let _ = rustix::event::poll(&mut polled, Some(&limit));
}

/// Ends the program if the terminal was closed. Nothing is left to restore, and a dropped `Terminal` panics if it cannot write that showing the cursor failed.
fn end_if_gone() {
    if is_gone() {
        std::process::exit(HUNG_UP.into());
    }
}

/// Ends the program when the terminal is closed, wherever the main thread is then: in a `poll` that never returns, or waiting for another program.
fn watch_terminal() {
    let input = std::io::stdin();
    loop {
        let mut polled = [PollFd::new(&input, PollFlags::empty())];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) => end_if_gone(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn is_gone() -> bool {
    let input = std::io::stdin();
    let mut polled = [PollFd::new(&input, PollFlags::empty())];
    let count = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    count.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

fn enter() -> Result<(), String> {
    enable_raw_mode().map_err(failed)?;
    execute!(stdout(), EnterAlternateScreen).map_err(failed)
}

fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: std::io::Error) -> String {
    format!("terminal: {error}")
}

/// Notes the signals that end a program, on a thread, so that the terminal is restored before the end.
fn watch_signals(noted: &Arc<AtomicU8>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("signals: {error}"))?;
    let listen = |kind| {
        let _entered = runtime.enter();
        signal(kind).map_err(|error| format!("signals: {error}"))
    };
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let noted = Arc::clone(noted);
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let code = tokio::select! {
                    _ = terminate.recv() => 128 + 15,
                    _ = hangup.recv() => HUNG_UP,
                    _ = interrupt.recv() => INTERRUPTED,
                };
                noted.store(code, Ordering::Relaxed);
                if code == HUNG_UP {
                    // Without a terminal there is nothing to restore, and whoever reads from it or waits for another program may never come back.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    std::process::exit(HUNG_UP.into());
                }
            }
        });
    });
    Ok(())
}
