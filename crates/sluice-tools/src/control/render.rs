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
    let (version, pid, up) = (&state.version, state.pid, uptime(status.started));
    line("server", format!("sluice {version}, pid {pid}, up {up}"));
    if let Some(supervisor) = &state.supervisor {
        line("", supervised(state.server_pid, supervisor));
    }
    if let Some(file) = &state.configuration {
        line("configuration", file.clone());
    }
    let (addresses, workers) = (status.addresses.join(", "), status.workers);
    line("listening", format!("{addresses}; {workers} workers"));
    for (index, certificate) in certificate_lines(&status.certificates).into_iter().enumerate() {
        line(if index == 0 { "certificates" } else { "" }, certificate);
    }
    for (index, fault) in status.faults.iter().enumerate() {
        line(if index == 0 { "faults" } else { "" }, format!("WARNING: {fault}"));
    }
    let (open, most) = (number(connections.open), number(connections.max as u64));
    let accepted = number(connections.accepted);
    line("connections", format!("{open} of {most}; {accepted} accepted"));
    let (total, in_progress) = (number(requests.total), number(requests.in_progress));
    line("requests", format!("{total}; {in_progress} in progress"));
    line("responses", responses(state));
    line("sent", format!("{} bytes of bodies", number(requests.body_bytes)));
    let (running, most) = (processes.running, number(processes.max as u64));
    line("scripts", format!("{running} of {most} processes"));
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
    let share = (cache.hits * 100).checked_div(cache.hits + cache.misses);
    let share = share.map_or_else(String::new, |share| format!(" ({share} %)"));
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
    let restarts = counted(supervisor.restarts.into(), "restart", "restarts");
    let mut text = format!("server process {pid}, {restarts}");
    if let Some(end) = &supervisor.last_end {
        let _ = write!(text, " (the last one {end})");
    }
    if supervisor.upgrades > 0 {
        let upgrades = counted(supervisor.upgrades.into(), "upgrade", "upgrades");
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
    let present = phases.into_iter().filter(|phase| count(*phase) > 0);
    let mut parts: Vec<_> = present
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
    let replaced = match pool.is_replaced {
        true => ", of a replaced configuration",
        false => "",
    };
    let site = match &*pool.site {
        "" | "*" => String::new(),
        site => format!(" of {site}"),
    };
    // Of the same engine for two users, only the route differs.
    let is_same = |other: &&Pool| (&other.script, &other.mode, &other.site) == (&pool.script, &pool.mode, &pool.site);
    let route = match all.iter().filter(is_same).any(|other| other.origin != pool.origin) {
        true => format!(", {}", pool.origin),
        false => String::new(),
    };
    let (script, mode, parts) = (&pool.script, &pool.mode, parts.join(", "));
    format!("{script} ({mode}{site}{route}{replaced}): {parts}")
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
