//! `sluice top`: a terminal monitor of a running server, over its control socket.
//!
//! ```text
//!  poller (a thread) ── Snapshot ──▶ main loop ──▶ model ──▶ view ──▶ terminal
//!                    ◀── commands ──     ▲ keys
//! ```
//! What is shown and in which order is in `model`, how in `view`; `screen` has the state of the terminal.

mod model;
mod poller;
mod screen;
mod view;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sluice_http::escape::escaped_lines;
use sluice_report::command::Command;

use crate::control::Caller;
use crate::control::client::{ServerOptions, ask};
use model::{Model, Snapshot};
use poller::Poller;
use screen::{Input, Screen};

/// How long the loop waits for a key before it sees to signals and new data.
const TURN: Duration = Duration::from_millis(100);

/// Bounds of the interval between two questions to the server, seconds.
const INTERVAL_SECONDS: std::ops::RangeInclusive<f64> = 0.2..=60.0;

const HELP: &str = "\
Keys: q quits, Tab changes the list, up and down choose a line, s changes the order, r reverses it, / filters, p pauses, R retires the \
script of a process (idle processes end at once, busy ones after their request), e ends a request, w watches it, W the next ones for its path, ? shows all keys.

Without --server it shows the only server that this user runs, or the one with the socket /run/sluice/control.sock.";

/// `sluice top`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Top {
    #[command(flatten)]
    server: ServerOptions,
    /// Seconds between two questions to the server.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_interval)]
    interval: f64,
    /// Show only lines that contain this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Print one frame as text, and end.
    #[arg(long)]
    once: bool,
    /// Print what the server answers as JSON, and end.
    #[arg(long, conflicts_with = "once")]
    json: bool,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    let (least, most) = INTERVAL_SECONDS.into_inner();
    match text.parse() {
        Ok(seconds) if INTERVAL_SECONDS.contains(&seconds) => Ok(seconds),
        _ => Err(format!("must be a number of seconds from {least} to {most}")),
    }
}

/// Runs the monitor until the user quits.
///
/// # Errors
/// One line: no server was found, or there is no terminal.
pub fn run(options: &Top, caller: Caller) -> Result<ExitCode, String> {
    let server = &options.server;
    // First without the screen, so that a message about a missing server stays readable.
    let (answer, text) = ask(server, &Command::Top, caller)?;
    if options.json {
        (caller.print)(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let snapshot = Snapshot::of(answer).map_err(|message| format!("the server answers: {message}"))?;
    let mut model = Model::new(options.filter.clone());
    model.take(snapshot, Instant::now());
    if options.once {
        (caller.print)(&escaped_lines(&view::text(&model)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let interval = Duration::from_secs_f64(options.interval);
    let mut poller = Poller::start(options.server.clone(), caller, interval);
    let mut screen = Screen::open()?;
    let result = run_until_quit(&mut model, &mut poller, &mut screen, server);
    // Before any message.
    drop(screen);
    result
}

fn run_until_quit(
    model: &mut Model,
    poller: &mut Poller,
    screen: &mut Screen,
    server: &ServerOptions,
) -> Result<ExitCode, String> {
    loop {
        while let Some(news) = poller.next() {
            model.receive(news, Instant::now());
        }
        screen.draw(|frame| view::draw(frame, model));
        match screen.next(TURN)? {
            Input::None => {}
            Input::Signal(code) => return Ok(ExitCode::from(code)),
            Input::Key(key) => match on_key(model, key) {
                Effect::None => {}
                Effect::Quit => return Ok(ExitCode::SUCCESS),
                Effect::Command(command) => poller.command(command),
                Effect::Watch(option, value) => {
                    let mut arguments = vec!["watch".into(), option.into(), value.into()];
                    arguments.extend(server.arguments());
                    if let Err(error) = screen.run_aside(&arguments) {
                        model.say(error);
                    }
                }
            },
        }
    }
}

enum Effect {
    None,
    Quit,
    Command(Command),
    /// Watches the requests that an option of `sluice watch` names with this value.
    Watch(&'static str, String),
}

fn on_key(model: &mut Model, key: KeyEvent) -> Effect {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Effect::Quit;
    }
    if model.is_editing {
        match key.code {
            KeyCode::Char(letter) => model.edit_filter(|filter| filter.push(letter)),
            KeyCode::Backspace => model.edit_filter(|filter| {
                filter.pop();
            }),
            KeyCode::Esc => model.end_editing(String::new()),
            KeyCode::Enter => model.is_editing = false,
            _ => {}
        }
        return Effect::None;
    }
    if let Some(question) = model.question.take() {
        return match key.code {
            KeyCode::Char('y') => Effect::Command(question),
            _ => Effect::None,
        };
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc if !model.is_help => return Effect::Quit,
        _ if model.is_help => model.is_help = false,
        KeyCode::Char('?' | 'h') => model.is_help = true,
        KeyCode::Tab | KeyCode::BackTab => model.change_pane(),
        KeyCode::Char('s') => model.next_order(),
        KeyCode::Char('r') => model.is_reversed ^= true,
        KeyCode::Char('p' | ' ') => model.is_paused ^= true,
        KeyCode::Char('/') => model.is_editing = true,
        KeyCode::Up | KeyCode::Char('k') => model.select_by(-1),
        KeyCode::Down | KeyCode::Char('j') => model.select_by(1),
        KeyCode::PageUp => model.select_by(-10),
        KeyCode::PageDown => model.select_by(10),
        KeyCode::Home => model.select_by(isize::MIN),
        KeyCode::End => model.select_by(isize::MAX),
        KeyCode::Char('R') => model.ask_to_retire(),
        KeyCode::Char('e') => model.ask_to_end(),
        KeyCode::Char(key @ ('w' | 'W')) => {
            let (option, value) = match key {
                'w' => ("--id", model.selected_request()),
                _ => ("--path", model.selected_path()),
            };
            match value {
                Some(value) => return Effect::Watch(option, value),
                None => model.say("choose a request, or a process that has one".to_owned()),
            }
        }
        _ => {}
    }
    Effect::None
}
