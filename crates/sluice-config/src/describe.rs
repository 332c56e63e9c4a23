//! A summary of settings in words, shown by `check` and when a server starts.

use std::fmt::Write;
use std::path::Path;

use sluice_launch::deadline;
use sluice_settings::rule::CertificateUse;
use sluice_settings::{
    AccessLog, Action, CacheUse, Convert, Engine, Fallback, ListenAddress, LogLevel, LogTarget, PoolSettings,
    RecordSettings, RouteSettings, ScriptSettings, ScriptSource, ServerLog, Settings, SiteSettings, SuffixScripts,
    UnknownHosts,
};

use sluice_settings::notation::{format_duration, format_size};

/// Describes what is served where: addresses, sites and their routes, one per line, in columns. Ends with a newline.
pub fn describe(settings: &Settings) -> String {
    let mut out = String::new();
    line(&mut out, "listening on", &addresses(settings));
    line(&mut out, "workers", &settings.workers.to_string());
    for file in settings.config_files.iter().skip(1) {
        line(&mut out, "included", &file.display().to_string());
    }
    if !settings.proxies.trusted.is_empty() {
        line(&mut out, "proxies", &settings.proxies.trusted.to_string());
    }
    if settings.unknown_hosts == UnknownHosts::Refuse {
        line(&mut out, "unknown hosts", "refused (421)");
    }
    line(&mut out, "access log", &describe_log(&settings.access_log));
    line(&mut out, "server log", &describe_server_log(&settings.server_log));
    for site in &settings.sites {
        let hosts = if site.hosts.is_empty() {
            "any host".to_owned()
        } else {
            site.hosts.join(" ")
        };
        line(&mut out, "site", &hosts);
        if !site.listen.is_empty() {
            let addresses: Vec<String> = site.listen.iter().map(ToString::to_string).collect();
            line(&mut out, "  only on", &addresses.join("  "));
        }
        if site.client_certificates == CertificateUse::Required {
            line(&mut out, "  clients", "with a certificate");
        }
        if !site.blocks.is_empty() {
            line(&mut out, "  use", &site.blocks.join(" "));
        }
        if let Some(log) = &site.log {
            line(&mut out, "  access log", &describe_log(log));
        }
        out.push_str(&describe_site(site));
    }
    out
}

/// The addresses with their protocols: `http://127.0.0.1:8080/`.
pub fn addresses(settings: &Settings) -> String {
    let addresses: Vec<String> = settings
        .listen
        .iter()
        .map(|listen| {
            let scheme = if listen.tls.is_some() { "https" } else { "http" };
            let shown = match &listen.address {
                ListenAddress::Inet(address) => format!("{scheme}://{address}/"),
                address => format!("{address} ({scheme})"),
            };
            match listen.proxy_protocol {
                Some(_) => format!("{shown} (PROXY protocol)"),
                None => shown,
            }
        })
        .collect();
    addresses.join("  ")
}

/// One line for `check`: `sluice.toml: ok: 2 sites, 5 routes, 1 address`.
pub fn summary(file: &Path, settings: &Settings) -> String {
    let routes = settings.routes().count();
    let included = settings.config_files.len().saturating_sub(1);
    let mut parts = vec![
        count(settings.sites.len(), "site", "sites"),
        count(routes, "route", "routes"),
        count(settings.listen.len(), "address", "addresses"),
    ];
    parts.extend((included > 0).then(|| count(included, "included file", "included files")));
    format!("{}: ok: {}", file.display(), parts.join(", "))
}

fn line(out: &mut String, label: &str, text: &str) {
    writeln!(out, "{label:<13} {text}").expect("a String takes every text");
}

pub(super) fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

pub(super) fn describe_log(log: &AccessLog) -> String {
    let place = match &log.target {
        LogTarget::Off => return "off".into(),
        LogTarget::Stdout => "standard output".to_owned(),
        LogTarget::File(path) => path.display().to_string(),
    };
    let mut parts = vec![place, log.format.to_string()];
    if matches!(log.target, LogTarget::File(_)) {
        let rotation = &log.rotation;
        parts.extend(
            rotation
                .bytes_max
                .map(|bytes| format!("rotated at {}", format_size(bytes))),
        );
        parts.extend(rotation.is_daily.then(|| "rotated daily".to_owned()));
        parts.extend(rotation.keep.map(|files| format!("{files} kept")));
    }
    parts.join(", ")
}

/// The server log: `standard error`, or `/var/log/sluice/server.log, level debug, JSON`.
pub(super) fn describe_server_log(log: &ServerLog) -> String {
    let mut parts = match &log.file {
        None => vec!["standard error".to_owned()],
        Some(file) => vec![file.display().to_string()],
    };
    let level = match log.level {
        LogLevel::Error => Some("error"),
        LogLevel::Warn => Some("warn"),
        LogLevel::Info => None,
        LogLevel::Debug => Some("debug"),
    };
    parts.extend(level.map(|level| format!("level {level}")));
    parts.extend(log.is_json.then(|| "JSON".to_owned()));
    parts.join(", ")
}

/// The routes and, last, the files for paths that no route matches: pattern, action, details.
fn describe_site(site: &SiteSettings) -> String {
    let shown = |route| describe_route(route, site, &route.when.to_string());
    let mut rows: Vec<[String; 3]> = site.routes.iter().map(shown).collect();
    rows.extend(describe_root(site));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let lines = rows
        .iter()
        .map(|[path, action, with]| format!("  {path:<first$}  {action:<second$}  {with}\n"));
    lines.collect()
}

/// The files of a site for paths that no route matches: pattern, action, details.
pub(super) fn describe_root(site: &SiteSettings) -> Option<[String; 3]> {
    let files = describe_files(site.files.listing).to_owned();
    let root = format!("{}{}", site.root.as_ref()?.display(), describe_cache(site.files.cache));
    Some(["/*".into(), files, root])
}

/// A route: pattern, action, details. `when` are its conditions.
pub(super) fn describe_route(route: &RouteSettings, site: &SiteSettings, when: &str) -> [String; 3] {
    let (action, with) = match &route.action {
        Action::Files(directory) => {
            let files = describe_files(directory.listing.unwrap_or(site.files.listing));
            let records = describe_records(directory.records.as_ref());
            let kept = match route.changes.cache {
                None => describe_cache(site.files.cache),
                // Described with the other changes of the route.
                Some(_) => "",
            };
            let (with, scripts) = describe_scripts(directory.scripts.as_ref());
            let fallback = describe_fallback(&directory.fallback);
            let path = directory.path.display();
            (
                format!("{files}{with}"),
                format!("{path}{scripts}{records}{kept}{fallback}"),
            )
        }
        Action::Redirect { to, status } => (format!("redirect {status}"), to.to_string()),
        Action::Refuse(refusal) => (
            format!("refuse {}", refusal.status),
            refusal.text.clone().unwrap_or_default(),
        ),
        Action::Reports => ("reports".to_owned(), String::new()),
        Action::Rewrite(to) => ("rewrite".to_owned(), to.to_string()),
        Action::Pass => ("set".to_owned(), String::new()),
        Action::Script(script) => (script.mode.name().to_owned(), describe_script(script, site)),
    };
    let mut parts = vec![with];
    if let Some(script) = route.action.script() {
        parts.extend(pool_lines(script));
        parts.extend(script.confinement.lines());
    }
    parts.extend(route.changes.lines());
    parts.extend((!route.when.is_empty()).then(|| format!("when {when}")));
    parts.extend((!route.blocks.is_empty()).then(|| format!("use {}", route.blocks.join(" "))));
    parts.extend(route.comment.as_ref().map(|comment| format!("{comment:?}")));
    parts.retain(|part| !part.is_empty());
    [route.path.to_string(), action, parts.join(", ")]
}

/// How the use of the cache differs from the default.
fn describe_cache(cache: CacheUse) -> &'static str {
    match cache {
        CacheUse::On => "",
        CacheUse::Off => ", not cached",
        CacheUse::Permanent => ", cached permanently",
    }
}

fn describe_records(records: Option<&RecordSettings>) -> String {
    let Some(RecordSettings { format, convert }) = records else {
        return String::new();
    };
    let converted = match convert {
        Convert::Off => "",
        Convert::Cache => ", lines kept in the cache",
        Convert::Rewrite => ", rewritten as stream-LF",
    };
    format!(" ({format} records{converted})")
}

/// The mode of the scripts among files, and what they are.
fn describe_scripts(scripts: Option<&SuffixScripts>) -> (String, String) {
    let Some(SuffixScripts { suffixes, script }) = scripts else {
        return Default::default();
    };
    let described = suffixes.iter().map(|suffix| {
        let engine = script.engines.by_suffix.get(suffix).map(Engine::name);
        match engine.or(script.interpreters.get(suffix).map(String::as_str)) {
            Some(program) => format!("{suffix} by {program}"),
            None => suffix.clone(),
        }
    });
    let described: Vec<String> = described.collect();
    let processes = describe_processes(script);
    (
        format!(" and {}", script.mode.name()),
        format!(" ({}; {processes})", described.join(", ")),
    )
}

fn describe_fallback(fallback: &[Fallback]) -> String {
    let candidates = fallback.iter().map(|candidate| match candidate {
        Fallback::Path(to) => to.to_string(),
        Fallback::NextRoute => "the next route".to_owned(),
    });
    let candidates: Vec<String> = candidates.collect();
    match candidates.is_empty() {
        true => String::new(),
        false => format!(", or else {}", candidates.join(", ")),
    }
}

fn describe_files(is_listed: bool) -> &'static str {
    if is_listed { "files, listed" } else { "files" }
}

/// A directory of scripts, and whether it is still missing.
pub(super) fn describe_directory(path: &Path, script: &ScriptSettings) -> String {
    if !script.is_directory_optional || deadline::is_dir(path) {
        return path.display().to_string();
    }
    let why = match deadline::metadata(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => format!("cannot be used: {error}"),
        Err(_) => "does not exist yet".to_owned(),
        Ok(_) => "is no directory".to_owned(),
    };
    format!("{}, which {why}", path.display())
}

fn describe_script(script: &ScriptSettings, site: &SiteSettings) -> String {
    let source = match (&script.source, &site.root) {
        (ScriptSource::Directory(path), _) => describe_directory(path, script),
        (ScriptSource::App { directory, name }, _) => format!("{name} in {}", directory.display()),
        (ScriptSource::File(path), _) | (ScriptSource::Root, Some(path)) => path.display().to_string(),
        (ScriptSource::Root, None) => "nothing: the site has no root".into(),
    };
    let mut engines: Vec<_> = script.engines.all().map(Engine::name).collect();
    engines.dedup();
    let by = if engines.is_empty() { "" } else { "; " };
    format!("{source} ({}{by}{})", engines.join(", "), describe_processes(script))
}

fn describe_processes(script: &ScriptSettings) -> String {
    let pool = &script.pool;
    let processes = match (pool.min, pool.max) {
        (0, 1) => "1 process".to_owned(),
        (0, max) => format!("up to {max} processes"),
        (min, max) if min == max => format!("{max} processes"),
        (min, max) => format!("{min} to {max} processes"),
    };
    let what = if script.mode.has_engine() { "engine" } else { "script" };
    match script.mode.keeps_process() {
        true => format!("{processes} per {what}, idle {}", format_duration(pool.idle)),
        false => format!("{processes} per {what}"),
    }
}

/// The limits of a pool, except the number of processes, each as in the configuration: `requests = 500`.
fn pool_lines(script: &ScriptSettings) -> Vec<String> {
    let (pool, usual) = (&script.pool, PoolSettings::new(script.mode));
    let number = |number: Option<usize>| number.map(|number| number.to_string());
    let set = [
        ("processes", number(script.processes_max)),
        ("requests", pool.requests_max.map(|requests| requests.to_string())),
        ("lifetime", pool.lifetime_max.map(format_duration)),
        ("memory_soft", pool.memory_bytes_max.map(format_size)),
        ("requests_per_client", number(pool.client_requests_max)),
        (
            "queue",
            number(Some(pool.queue_max).filter(|queue| *queue != usual.queue_max)),
        ),
        (
            "queue_timeout",
            Some(pool.queue_timeout)
                .filter(|timeout| *timeout != usual.queue_timeout)
                .map(format_duration),
        ),
        (
            "proctor",
            Some(script.proctor.join(" ")).filter(|targets| !targets.is_empty()),
        ),
    ];
    set.into_iter()
        .filter_map(|(name, value)| Some(format!("{name} = {}", value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    #[test]
    fn sites_and_routes_are_described_in_columns() {
        let settings = read(
            r#"
            [[listen]]
            address = ":80"
            [[listen]]
            address = "unix:run/sluice.sock"
            proxy_protocol = ["unix:"]
            [server]
            workers = 2
            trusted_proxies = ["10.0.0.0/8", "unix:"]
            [[site]]
            hosts = ["example.org", "*.example.org"]
            root = "htdocs"
            route = [
                { path = "/cgi-bin/*", script = { directory = "cgi-bin" }, compress = true },
                { path = "/wiki/*", script = { file = "wiki", mode = "cgiplus", min = 1, max = 8 } },
                { path = "/old/*", redirect = { to = "/new/*", status = 301 } },
                { path = "*.cgi", script = {} },
                { path = "/vms/*", files = { directory = "vms", record_format = "vfc", convert = "rewrite" } },
            ]
            [[site]]
            listing = true
            root = "htdocs"
            route = [{ path = "/other/*", files = { directory = "other", listing = false }, log = false, compress = false, cache = "permanent" }]
            cache = "off"
            log = { access = "other.log", format = "%h %r", rotate = "daily", rotate_size = "1GiB", keep = 7 }
            "#,
        )
        .expect("a valid configuration");
        let expected = "\
listening on  http://0.0.0.0:80/  unix:/etc/sluice/run/sluice.sock (http) (PROXY protocol)
workers       2
proxies       10.0.0.0/8 unix:
access log    standard output, combined
server log    standard error
site          example.org *.example.org
  /cgi-bin/*  cgi           /etc/sluice/cgi-bin (up to 64 processes per script), compressed
  /wiki/*     cgiplus       /etc/sluice/wiki (1 to 8 processes per script, idle 10m)
  /old/*      redirect 301  /new/*
  *.cgi       cgi           /etc/sluice/htdocs (up to 64 processes per script)
  /vms/*      files         /etc/sluice/vms (vfc records, rewritten as stream-LF)
  /*          files         /etc/sluice/htdocs
site          any host
  access log  /etc/sluice/other.log, %h %r, rotated at 1GiB, rotated daily, 7 kept
  /other/*  files          /etc/sluice/other, cached for good, not compressed, not logged
  /*        files, listed  /etc/sluice/htdocs, not cached
";
        assert_eq!(describe(&settings), expected);
        assert_eq!(
            summary(Path::new("sluice.toml"), &settings),
            "sluice.toml: ok: 2 sites, 6 routes, 2 addresses"
        );
    }
}
