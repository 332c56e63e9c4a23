//! The page with the ends of the logs. A thread reads their files.
//!
//! Sites that write to one log are shown as one; a log that is off is not shown. One reading at a time, so that many visitors do not fill the memory.

use std::sync::{Arc, Mutex};

use sluice_log::{LogSource, SiteLog, Tail, WantedLines};
use sluice_report::logs::{FILTER_CHARACTERS_MAX, LINES, LINES_USUAL, LogName, Logs};

use crate::operator::reports::page::{Collected, Wanted, later};
use sluice_log::wait::lock_soon;

const SERVER: &str = "server";

static READING: Mutex<()> = Mutex::new(());

struct Shown {
    name: LogName,
    source: Arc<LogSource>,
}

pub(super) fn collect(wanted: &Wanted) -> Collected {
    let logs = shown_logs(
        wanted.context.state.server_log.load_full(),
        &wanted.context.config().shared().logs,
    );
    let text = |name: &str| wanted.values.get(name).unwrap_or_default().to_owned();
    let lines = text("lines").parse().ok().filter(|count| LINES.contains(count));
    let filter = text("filter").chars().take(FILTER_CHARACTERS_MAX).collect();
    let asked = Some(text("log")).filter(|name| !name.is_empty());
    let wanted = WantedLines { lines_max: lines.unwrap_or(LINES_USUAL), filter };
    later(move || {
        let log = asked.unwrap_or_else(|| logs.first().map(|log| log.name.name.clone()).unwrap_or_default());
        let found = logs.iter().find(|shown| shown.name.name == log);
        let tail = found.map(|shown| read(&shown.source, &wanted)).unwrap_or_default();
        Logs {
            logs: logs.into_iter().map(|shown| shown.name).collect(),
            log,
            lines_max: wanted.lines_max,
            filter: wanted.filter,
            lines: tail.lines,
            note: tail.note,
        }
    })
}

fn read(source: &LogSource, wanted: &WantedLines) -> Tail {
    match lock_soon(&READING) {
        Some(_reading) => source.tail(wanted),
        None => Tail {
            lines: Vec::new(),
            note: Some("The disk does not answer".to_owned()),
        },
    }
}

/// The logs in the order of the configuration. `access` are the server's own one and those of the sites.
fn shown_logs(server: Option<Arc<LogSource>>, access: &[SiteLog]) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    shown.extend(server.map(|source| Shown::new(SERVER.to_owned(), "Server log".to_owned(), source)));
    let own = access.first().and_then(SiteLog::source);
    for log in access.iter().skip(1) {
        let Some(source) = log.source() else { continue };
        let site = log.site();
        match shown.iter_mut().find(|shown| Arc::ptr_eq(&shown.source, &source)) {
            Some(shown) => shown.name.title.push_str(&format!(", {site}")),
            None => shown.push(Shown::new(
                format!("access:{site}"),
                format!("Access log of {site}"),
                source,
            )),
        }
    }
    if let Some(own) = own
        && !shown.iter().any(|shown| Arc::ptr_eq(&shown.source, &own))
    {
        shown.push(Shown::new(
            "access".to_owned(),
            "Access log of requests without a site".to_owned(),
            own,
        ));
    }
    shown
}

impl Shown {
    fn new(name: String, title: String, source: Arc<LogSource>) -> Shown {
        Shown {
            name: LogName {
                name,
                title,
                file: source.file.as_ref().map(|file| file.display().to_string()),
            },
            source,
        }
    }
}
