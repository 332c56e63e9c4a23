//! The state of a server as text for a terminal.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use super::State;

/// The state, a line for each subject.
pub(super) fn render(state: &State) -> String {
    let status = &state.status;
    let (connections, requests, processes) = (&status.connections, &status.requests, &status.processes);
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<14}{text}");
    };
    line(
        "server",
        format!(
            "sluice {}, pid {}, up {}",
            state.version,
            state.pid,
            uptime(status.started)
        ),
    );
    if let Some(file) = &state.configuration {
        line("configuration", file.clone());
    }
    line(
        "listening",
        format!("{}; {} workers", status.addresses.join(", "), status.workers),
    );
    line(
        "connections",
        format!(
            "{} of {}; {} accepted",
            number(connections.open),
            number(connections.max as u64),
            number(connections.accepted)
        ),
    );
    line(
        "requests",
        format!(
            "{}; {} in progress",
            number(requests.total),
            number(requests.in_progress)
        ),
    );
    line("responses", responses(state));
    line("sent", format!("{} bytes of bodies", number(requests.body_bytes)));
    line(
        "scripts",
        format!("{} of {} processes", processes.running, number(processes.max as u64)),
    );
    if let Some(cache) = &status.cache {
        let lookups = cache.hits + cache.misses;
        let share = (cache.hits * 100)
            .checked_div(lookups)
            .map_or_else(String::new, |share| format!(" ({share} %)"));
        line(
            "file cache",
            format!(
                "{} files, {} bytes; {} hits{share}, {} misses, {} evicted",
                number(cache.files),
                number(cache.bytes),
                number(cache.hits),
                number(cache.misses),
                number(cache.evicted)
            ),
        );
    }
    out
}

/// The counts of responses that are not 0.
fn responses(state: &State) -> String {
    let requests = &state.status.requests;
    let classes = (1..)
        .zip(requests.by_class)
        .map(|(class, count)| (format!("{class}xx"), count));
    let others = [
        ("client left", requests.client_left),
        ("incomplete", requests.truncated),
    ];
    let counts = classes.chain(others.map(|(name, count)| (name.to_owned(), count)));
    let shown: Vec<_> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {}", number(count)))
        .collect();
    match shown.is_empty() {
        true => "none".to_owned(),
        false => shown.join(", "),
    }
}

/// How long a server has run that started at this moment, in seconds since 1970.
fn uptime(started: u64) -> String {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(started);
    let seconds = started.elapsed().map_or(0, |since| since.as_secs());
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A number in groups of three digits.
fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups_of_three_digits() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn uptimes_have_two_units() {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        for (seconds, text) in [(5, "5 s"), (125, "2 min"), (7300, "2 h 1 min"), (200_000, "2 d 7 h")] {
            assert_eq!(uptime(now - seconds), text);
        }
    }
}
