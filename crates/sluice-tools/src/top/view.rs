//! How `sluice top` looks: two lines of overview, the requests, the processes, and a line of keys or messages. It fits into 80 columns.

use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Constraint::{self, Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, TableState};
use sluice_report::command::Command;
use sluice_report::requests::{ActiveRequest, State as RequestState};
use sluice_report::text::number;

use super::model::{Model, Pane, ProcessLine, ProcessOrder, RequestOrder};
use crate::control::render::uptime;

/// The size of a frame that is printed as text, where the terminal does not say it.
const TEXT_COLUMNS: u16 = 80;

/// Columns of a printed frame at most.
const TEXT_COLUMNS_MAX: u16 = 300;

/// Rows of a list that is printed at most.
const TEXT_ROWS_MAX: u16 = 1000;

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let processes = u16::try_from(model.processes().len()).unwrap_or(u16::MAX);
    let height = frame.area().height;
    // The processes get what they need, up to half of the room.
    let for_processes = processes.saturating_add(1).min((height.saturating_sub(3) / 2).max(2));
    let [overview, requests, scripts, keys] =
        Layout::vertical([Length(2), Min(2), Length(for_processes), Length(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(overview_lines(model)), overview);
    draw_requests(frame, model, requests);
    draw_processes(frame, model, scripts);
    frame.render_widget(Paragraph::new(last_line(model)), keys);
    if model.is_help {
        draw_help(frame);
    }
}

/// A frame as text, as wide as the terminal and as long as the lists are.
pub(super) fn text(model: &Model) -> String {
    let columns = ratatui::crossterm::terminal::size()
        .ok()
        .map(|(columns, _)| columns)
        .filter(|columns| *columns > 0);
    let columns = columns.unwrap_or(TEXT_COLUMNS).clamp(TEXT_COLUMNS, TEXT_COLUMNS_MAX);
    let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).clamp(1, TEXT_ROWS_MAX);
    let (requests, processes) = (rows(model.requests().len()), rows(model.processes().len()));
    // Twice the larger list, because each gets half.
    let height = 5 + 2 * requests.max(processes);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, height));
    let Ok(_) = terminal.draw(|frame| draw(frame, model));
    lines_of(&terminal)
}

/// The lines of a drawn frame, without those that are empty.
fn lines_of(terminal: &Terminal<TestBackend>) -> String {
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in 0..buffer.area.height {
        let line: String = (0..buffer.area.width)
            .map(|column| buffer[(column, row)].symbol())
            .collect();
        let line = line.trim_end();
        if !line.is_empty() {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn overview_lines(model: &Model) -> Vec<Line<'static>> {
    let Some(snapshot) = &model.snapshot else {
        return vec![Line::from("waiting for the server")];
    };
    let (state, status) = (&snapshot.state, &snapshot.state.status);
    let pools = &state.scripts.pools;
    let rate =
        |rate: Option<f64>, unit: &str| rate.map_or_else(|| "-".to_owned(), |rate| format!("{}{unit}", short(rate)));
    let waiting: usize = pools.iter().map(|pool| pool.waiting).sum();
    let refused: u64 = pools.iter().map(|pool| pool.refused.total()).sum();
    let first = format!(
        "sluice {} pid {} up {}  req/s {}  in progress {}  conn {}/{}",
        state.version,
        state.pid,
        uptime(status.started),
        rate(model.rates.requests_per_second, ""),
        number(status.requests.in_progress),
        status.connections.open,
        status.connections.max,
    );
    let [_, successes, redirects, client, server] = status.requests.by_class;
    let second = format!(
        "proc {}/{}  waiting {waiting}  refused {refused}  2xx {} 3xx {} 4xx {} 5xx {}  sent {}B/s",
        status.processes.running,
        status.processes.max,
        count(successes),
        count(redirects),
        count(client),
        count(server),
        rate(model.rates.bytes_per_second, ""),
    );
    vec![Line::from(first).style(Style::new().bold()), Line::from(second)]
}

fn draw_requests(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let requests = model.requests();
    let total = model.snapshot.as_ref().map_or(0, |snapshot| snapshot.requests.total);
    let title = format!("REQUEST ({} of {total})", requests.len());
    let columns = [
        (Some(RequestOrder::Age), "AGE", Length(6)),
        (Some(RequestOrder::State), "STATE", Length(10)),
        (Some(RequestOrder::Client), "CLIENT", Length(15)),
        (Some(RequestOrder::Bytes), "BYTES", Length(6)),
        (None, "PID", Length(7)),
        (Some(RequestOrder::Target), &title, Min(20)),
    ];
    let rows = requests.into_iter().map(request_row).collect();
    draw_list(frame, area, model, Pane::Requests, model.request_order, &columns, rows);
}

fn request_row(request: &ActiveRequest) -> Row<'static> {
    let client = &request.client;
    let client = client.rsplit_once(':').map_or(&**client, |(address, _)| address);
    let user = request.user.as_ref().map(|user| format!("{user}@"));
    Row::new([
        Cell::from(age(request.age_ms)),
        Cell::from(state_name(request.state)),
        Cell::from(format!(
            "{}{}",
            user.unwrap_or_default(),
            client.trim_matches(['[', ']'])
        )),
        Cell::from(count(request.sent_bytes + request.received_bytes)),
        Cell::from(request.pid.map(|pid| pid.to_string()).unwrap_or_default()),
        Cell::from(format!("{} {}{}", request.method, request.host, request.target)),
    ])
}

/// The state in ten columns.
fn state_name(state: RequestState) -> &'static str {
    match state {
        RequestState::Deciding => "deciding",
        RequestState::Password => "password",
        RequestState::Agent => "agent",
        RequestState::Throttle => "throttle",
        RequestState::Preparing => "preparing",
        RequestState::Body => "reads body",
        RequestState::Waiting => "waiting",
        RequestState::Starting => "starting",
        RequestState::Script => "script",
        RequestState::Producing => "output?",
        RequestState::Sending => "sending",
    }
}

fn draw_processes(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let lines = model.processes();
    let title = format!("SCRIPT ({})", lines.len());
    let columns = [
        (None, "PID", Length(7)),
        (Some(ProcessOrder::Phase), "PHASE", Length(8)),
        (None, "SINCE", Length(5)),
        (Some(ProcessOrder::Age), "AGE", Length(5)),
        (Some(ProcessOrder::Uses), "USES", Length(6)),
        (Some(ProcessOrder::Processor), "CPU%", Length(5)),
        (Some(ProcessOrder::Memory), "RSS", Length(6)),
        (Some(ProcessOrder::Script), &title, Min(20)),
    ];
    let rows = lines.iter().map(process_row).collect();
    draw_list(frame, area, model, Pane::Processes, model.process_order, &columns, rows);
}

fn process_row(line: &ProcessLine<'_>) -> Row<'static> {
    let process = line.process;
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let rss = process
        .usage
        .map_or_else(|| "-".to_owned(), |usage| short(usage.rss_bytes as f64));
    let request = process.request.as_ref().and_then(|request| request.target.as_deref());
    let request = request.map(|target| format!("  {target}")).unwrap_or_default();
    Row::new([
        Cell::from(process.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())),
        Cell::from(process.phase.name()),
        Cell::from(age(process.since_ms)),
        Cell::from(age(process.age_ms)),
        Cell::from(count(process.uses)),
        Cell::from(
            line.processor
                .map_or_else(|| "-".to_owned(), |share| format!("{:.0}", share * 100.0)),
        ),
        Cell::from(rss),
        Cell::from(format!("{}{request}", short_path(line.script()))),
    ])
}

/// Draws one of the lists. A column has the order that it stands for, its name and its width; that of `order` is marked with an arrow.
fn draw_list<O: PartialEq>(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    pane: Pane,
    order: O,
    columns: &[(Option<O>, &str, Constraint)],
    rows: Vec<Row<'static>>,
) {
    let order = Some(order);
    let arrow = if model.is_reversed { "^" } else { "v" };
    let name = |(of, name, _): &(Option<O>, &str, _)| match *of == order {
        true => format!("{name}{arrow}"),
        false => (*name).to_owned(),
    };
    let is_chosen = model.pane == pane;
    let style = match is_chosen {
        true => Modifier::REVERSED,
        false => Modifier::UNDERLINED,
    };
    let header: Row<'_> = columns.iter().map(name).collect();
    let table = Table::new(rows, columns.iter().map(|(_, _, width)| *width))
        .header(header.style(style))
        .row_highlight_style(Modifier::BOLD | Modifier::REVERSED);
    let mut state = TableState::new().with_selected(is_chosen.then_some(model.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

fn last_line(model: &Model) -> Line<'static> {
    let reversed = Modifier::REVERSED;
    if model.is_editing {
        return Line::from(format!("filter: {}_  (Enter keeps it, Esc removes it)", model.filter)).style(reversed);
    }
    let question = match &model.question {
        Some(Command::Retire { script }) => Some(format!("retire {}", short_path(script))),
        Some(Command::End { id }) => Some(format!("end request {id}")),
        _ => None,
    };
    if let Some(question) = question {
        return Line::from(format!("{question}? y: yes, any other key: no")).style(reversed);
    }
    if let Some(text) = model.silence.as_deref().or(model.message()) {
        return Line::from(text.to_owned()).style(reversed);
    }
    let mut text = "q quit  Tab list  s sort  / filter  p pause  R retire  e end  w watch  ? help".to_owned();
    if !model.filter.is_empty() {
        text = format!("filter: {}  {text}", model.filter);
    }
    if model.is_paused {
        text = format!("PAUSED  {text}");
    }
    Line::from(text)
}

const HELP: [&str; 17] = [
    "",
    "q, Esc       quit",
    "Tab          requests or processes",
    "up, down     choose a line (also k, j, PageUp, PageDown, Home, End)",
    "s            sort by the next column",
    "r            reverse the order",
    "/            show only lines that contain a text",
    "p, space     pause",
    "R            retire the script: idle processes end, busy ones after",
    "             their request",
    "e            end the request, and stop its script process",
    "w            watch this request (sluice watch --id)",
    "W            watch the next requests for this path (sluice watch --path)",
    "",
    "output?      the script has begun its reply, and the server waits",
    "             for more of it",
    "any key goes back",
];

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(72), area.height.min(17));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, place);
    let lines: Vec<_> = HELP.map(|line| Line::from(format!("  {line}"))).to_vec();
    frame.render_widget(Paragraph::new(lines).style(Modifier::REVERSED), place);
}

/// A time in five columns: `950ms`, `12s`, `5m10s`, `3h20m`, `12d`.
fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds}ms"),
        1..60 => format!("{seconds}s"),
        60..600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        600..3600 => format!("{}m", seconds / 60),
        3600..36_000 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        36_000..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        _ => short(number as f64),
    }
}

/// A number with two or three digits and a unit: `1.2k`, `45M`.
fn short(number: f64) -> String {
    let mut number = number;
    for unit in ["", "k", "M", "G", "T"] {
        if number < 999.5 {
            return match number < 9.95 && (!unit.is_empty() || number.fract() > 0.05) {
                true => format!("{number:.1}{unit}"),
                false => format!("{number:.0}{unit}"),
            };
        }
        number /= 1000.0;
    }
    format!("{number:.0}P")
}

/// The end of a path that names a file: its last two parts.
fn short_path(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    match (slashes.next(), slashes.next()) {
        (Some(_), Some(second)) if path.len() > 30 => &path[second + 1..],
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_short() {
        for (milliseconds, text) in [
            (950, "950ms"),
            (59_000, "59s"),
            (310_000, "5m10s"),
            (700_000, "11m"),
            (12_000_000, "3h20m"),
            (90_000_000, "25h"),
            (1_000_000_000, "11d"),
        ] {
            assert_eq!(age(milliseconds), text);
        }
        for (number, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (45.0, "45"),
            (999.0, "999"),
            (1234.0, "1.2k"),
            (45e6, "45M"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!((count(9999), count(10_000)), ("9999".into(), "10k".into()));
        assert_eq!(short_path("/srv/a-rather-long-directory/cgi-bin/x.py"), "cgi-bin/x.py");
    }
}
