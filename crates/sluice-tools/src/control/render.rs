//! The state of a server as text for a terminal.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use sluice_report::command::{History, ServerReport};
use sluice_report::scripts::{Phase, Pool};
use sluice_report::status::{CacheStatus, CertificateStatus};
use sluice_report::text::{self, counted, number};

pub(super) fn render(state: &ServerReport) -> String {
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
    if let Some(supervisor) = &state.supervisor {
        line("", supervised(state.server_pid, supervisor));
    }
    if let Some(file) = &state.configuration {
        line("configuration", file.clone());
    }
    line(
        "listening",
        format!("{}; {} workers", status.addresses.join(", "), status.workers),
    );
    for (index, certificate) in certificate_lines(&status.certificates).into_iter().enumerate() {
        line(if index == 0 { "certificates" } else { "" }, certificate);
    }
    // What it has started without.
    for (index, fault) in status.faults.iter().enumerate() {
        line(if index == 0 { "faults" } else { "" }, format!("WARNING: {fault}"));
    }
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
    // Every script that ever ran has a pool.
    let has_news = |pool: &&Pool| !pool.processes.is_empty() || pool.waiting > 0 || pool.refused.total() > 0;
    for pool in state.scripts.pools.iter().filter(has_news) {
        line("", pool_line(pool, &state.scripts.pools));
    }
    if let Some(cache) = &status.cache {
        line("file cache", cache_line(cache));
    }
    out
}

fn cache_line(cache: &CacheStatus) -> String {
    let lookups = cache.hits + cache.misses;
    let share = (cache.hits * 100)
        .checked_div(lookups)
        .map_or_else(String::new, |share| format!(" ({share} %)"));
    format!(
        "{}, {} bytes; {}{share}, {}, {} evicted",
        counted(cache.files, "file", "files"),
        number(cache.bytes),
        counted(cache.hits, "hit", "hits"),
        counted(cache.misses, "miss", "misses"),
        number(cache.evicted)
    )
}

/// Certificates: the hosts of each, and when it expires.
fn certificate_lines(certificates: &[CertificateStatus]) -> Vec<String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let line = |certificate: &CertificateStatus| {
        let warning = if certificate.is_urgent(now) { "WARNING: " } else { "" };
        format!(
            "{} ({}): {warning}{}, {}",
            certificate.hosts.join(", "),
            certificate.file,
            certificate.life(now),
            text::moment(certificate.expires)
        )
    };
    certificates.iter().map(line).collect()
}

/// The server process, and what became of those before it.
fn supervised(pid: u32, supervisor: &History) -> String {
    let mut text = format!(
        "server process {pid}, {}",
        counted(u64::from(supervisor.restarts), "restart", "restarts")
    );
    if let Some(end) = &supervisor.last_end {
        let _ = write!(text, " (the last one {end})");
    }
    if supervisor.upgrades > 0 {
        let upgrades = counted(u64::from(supervisor.upgrades), "upgrade", "upgrades");
        let _ = write!(text, ", {upgrades}");
    }
    text
}

/// A pool of script processes: how many there are, and what happened to requests for it.
fn pool_line(pool: &Pool, all: &[Pool]) -> String {
    let count = |phase: Phase| pool.processes.iter().filter(|process| process.phase == phase).count();
    let phases = [
        Phase::Starting,
        Phase::Busy,
        Phase::Draining,
        Phase::Idle,
        Phase::Ending,
    ];
    let mut parts: Vec<_> = phases
        .into_iter()
        .filter(|phase| count(*phase) > 0)
        .map(|phase| format!("{} {}", count(phase), phase.name()))
        .collect();
    if parts.is_empty() {
        parts.push("no process".to_owned());
    }
    if pool.waiting > 0 {
        parts.push(format!("{} waiting", pool.waiting));
    }
    if pool.refused.total() > 0 {
        parts.push(format!("{} refused", number(pool.refused.total())));
    }
    let replaced = if pool.is_replaced {
        ", of a replaced configuration"
    } else {
        ""
    };
    let site = if matches!(&*pool.site, "" | "*") {
        String::new()
    } else {
        format!(" of {}", pool.site)
    };
    // Of the same engine for two users, only the route differs.
    let is_same = |other: &&Pool| (&other.script, &other.mode, &other.site) == (&pool.script, &pool.mode, &pool.site);
    let route = match all.iter().filter(is_same).any(|other| other.origin != pool.origin) {
        true => format!(", {}", pool.origin),
        false => String::new(),
    };
    format!(
        "{} ({}{site}{route}{replaced}): {}",
        pool.script,
        pool.mode,
        parts.join(", ")
    )
}

fn responses(state: &ServerReport) -> String {
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
pub(crate) fn uptime(started: u64) -> String {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(started);
    text::uptime(started.elapsed().map_or(0, |since| since.as_secs()))
}
