//! `[[site.route]].access.pam` and `.ldap`: the settings of the authentication agents that come with the server.
//!
//! An agent gets them as one text, `NAME=VALUE` separated by tabs (`sdk/agents/agent.c`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_settings::rule::{AgentProgram, AgentSettings, OwnAgent, OwnAgentKind};

use super::access::Draft;
use super::document::Document;
use super::file_kind::FileKind;
use super::key::{Key, Section, between};
use super::section::to_usize;
use super::table::{Table, Written};

/// The directory of PAM's services, for the check that one exists.
const PAM_DIRECTORIES: [&str; 3] = ["/etc/pam.d", "/usr/lib/pam.d", "/usr/etc/pam.d"];

/// The section of an agent while it is read.
pub(super) struct AgentDraft {
    /// Settings by their names, in the order of the file.
    values: Vec<(&'static str, String)>,
    timeout: Duration,
    processes_max: usize,
    directory: Option<PathBuf>,
    password_file: Option<PathBuf>,
}

impl AgentDraft {
    fn new() -> AgentDraft {
        AgentDraft {
            values: Vec::new(),
            timeout: Duration::from_secs(10),
            processes_max: 4,
            directory: None,
            password_file: None,
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().find(|(other, _)| *other == name)?;
        Some(&found.1)
    }

    fn finish(self, kind: OwnAgentKind, document: &Document<'_>) -> AgentSettings {
        let timeout = ("timeout", self.timeout.as_secs_f64().to_string());
        let has_groups = kind == OwnAgentKind::Pam || self.value("group_base").is_some();
        let values: Vec<_> = [timeout]
            .into_iter()
            .chain(self.values)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        AgentSettings {
            program: AgentProgram::Own(OwnAgent {
                kind,
                timeout: self.timeout,
                processes_max: self.processes_max,
                password_file: self.password_file,
                has_groups,
                sdk: document.sdk(),
            }),
            parameters: values.join("\t"),
        }
    }
}

/// Takes a setting that is a text of one line.
fn take(agent: &mut AgentDraft, text: String, written: &Written<'_>) -> Result<(), String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("must be a text of one line".to_owned());
    }
    agent.values.push((written.name, text));
    Ok(())
}

/// Takes a setting that is a file, which must exist.
fn take_path(agent: &mut AgentDraft, path: &Path, written: &Written<'_>) -> Result<(), String> {
    let text = path.to_str().map(str::to_owned);
    if let FileKind::Missing(reason) | FileKind::Denied(reason) = written.document().files.kind(path) {
        let message = format!("{}: {}: {reason}", written.name, path.display());
        written.document().report_missing(written.line, message);
    }
    take(agent, text.unwrap_or_default(), written)
}

/// Takes the name of an entry (RFC 4514).
fn take_entry(agent: &mut AgentDraft, text: String, written: &Written<'_>) -> Result<(), String> {
    // A comma may also be escaped, and then the rest is the end of a value.
    let mut parts = text
        .replace("\\,", "")
        .split(',')
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter();
    let is_attribute = |part: String| part.split_once('=').is_some_and(|(name, _)| !name.trim().is_empty());
    if !parts.all(is_attribute) {
        return Err("must be the name of an entry, as in \"ou=staff,dc=example,dc=org\"".to_owned());
    }
    take(agent, text, written)
}

/// Takes a template with the name of the user in it.
fn take_template(agent: &mut AgentDraft, text: String, written: &Written<'_>) -> Result<(), String> {
    match text.contains("%u") || written.name == "group_filter" && text.contains("%d") {
        true => take(agent, text, written),
        false => Err("must have %u where the name of the user is".to_owned()),
    }
}

/// Takes a filter (RFC 4515).
fn take_filter(agent: &mut AgentDraft, text: String, written: &Written<'_>) -> Result<(), String> {
    let count = |letter: char| text.chars().filter(|other| *other == letter).count();
    if !text.starts_with('(') || !text.ends_with(')') || count('(') != count(')') {
        return Err("must be a filter in parentheses, as in \"(uid=%u)\"".to_owned());
    }
    take_template(agent, text, written)
}

/// Takes the servers, separated by blanks.
fn take_servers(agent: &mut AgentDraft, servers: &[String], written: &Written<'_>) -> Result<(), String> {
    let scheme = |server: &String| server.split_once("://").map(|(scheme, _)| scheme.to_owned());
    let schemes: Vec<_> = servers.iter().map(scheme).collect();
    if let Some((server, _)) = servers.iter().zip(&schemes).find(|(server, scheme)| {
        !matches!(scheme.as_deref(), Some("ldaps" | "ldap" | "ldapi")) || server.contains([' ', ','])
    }) {
        return Err(format!(
            "{server:?} must be an address as in \"ldaps://ldap.example.org\"; ldap:// is for StartTLS, ldapi:// for a socket of this machine"
        ));
    }
    if schemes.windows(2).any(|two| two[0] != two[1]) {
        return Err("all servers must be reached in the same way: ldaps://, ldap:// or ldapi://".to_owned());
    }
    take(agent, servers.join(" "), written)
}

const TIMEOUT: Key<AgentDraft> =
    Key::duration("timeout", between(100, 300_000, ""), |agent, time| agent.timeout = time);

const PROCESSES: Key<AgentDraft> = Key::number("processes", "processes", between(1, 1000, ""), |agent, count| {
    agent.processes_max = to_usize(count);
});

static PAM: Section<AgentDraft> = Section {
    title: "[[site.route]].access.pam",
    keys: &[
        Key::text("service", |agent: &mut AgentDraft, name, written| {
            let is_name = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
            if !is_name || name.starts_with('.') {
                return Err("must be the name of a file in /etc/pam.d, as in \"sluice\"".to_owned());
            }
            take(agent, name, written)
        }),
        Key::path("directory", |agent, path, written| {
            take_path(agent, &path, written)?;
            agent.directory = Some(path);
            Ok(())
        }),
        TIMEOUT,
        PROCESSES,
    ],
};

pub(super) const PAM_KEY: Key<Draft> = Key::table("pam", &PAM, |access, table| {
    let agent = PAM.read(table, AgentDraft::new());
    check_service(&agent, table.line, table.document);
    access.own_agents.push(agent.finish(OwnAgentKind::Pam, table.document));
});

/// `agent = "pam"` alone, in the section with this key.
pub(super) fn pam_without_settings(table: &Table<'_>) -> AgentSettings {
    let agent = AgentDraft::new();
    check_service(&agent, table.line_of("agent"), table.document);
    agent.finish(OwnAgentKind::Pam, table.document)
}

/// Reports a service without a file: PAM would take the rules of `other`.
fn check_service(agent: &AgentDraft, line: usize, document: &Document<'_>) {
    let service = agent.value("service").unwrap_or("sluice");
    let directories: Vec<PathBuf> = match &agent.directory {
        Some(directory) => vec![directory.clone()],
        None => PAM_DIRECTORIES.iter().map(PathBuf::from).collect(),
    };
    let is_missing = |directory: &PathBuf| document.is_missing(&directory.join(service));
    if directories.iter().all(is_missing) {
        let message = format!(
            "pam: the service \"{service}\" has no file ({}): write one, with a line as \"auth required pam_unix.so\" and one as \"account required \
             pam_unix.so\"",
            directories[0].join(service).display()
        );
        document.report_missing(line, message);
    }
}

static LDAP: Section<AgentDraft> = Section {
    title: "[[site.route]].access.ldap",
    keys: &[
        Key::required(Key::words("server", |agent: &mut AgentDraft, servers, written| {
            take_servers(agent, &servers, written)
        })),
        Key::text("base", take_entry),
        Key::text("filter", take_filter),
        Key::text("bind_dn", take),
        Key::path("bind_password_file", |agent, path, written| {
            take_path(agent, &path, written)?;
            agent.password_file = Some(path);
            Ok(())
        }),
        Key::text("user_dn", take_template),
        Key::text("name_attribute", take),
        Key::text("group_base", take_entry),
        Key::text("group_filter", take_filter),
        Key::text("group_attribute", take),
        Key::path("ca_file", |agent, path, written| take_path(agent, &path, written)),
        Key::flag("clear_text", |agent, is_allowed| {
            if is_allowed {
                agent.values.push(("clear_text", "1".to_owned()));
            }
        }),
        TIMEOUT,
        PROCESSES,
    ],
};

pub(super) const LDAP_KEY: Key<Draft> = Key::table("ldap", &LDAP, |access, table| {
    let agent = LDAP.read(table, AgentDraft::new());
    if check_ldap(&agent, table) {
        access.own_agents.push(agent.finish(OwnAgentKind::Ldap, table.document));
    }
});

/// Reports settings of a directory server that do not go together.
fn check_ldap(agent: &AgentDraft, table: &Table<'_>) -> bool {
    let has = |name: &str| table.has(name);
    let refuse = |name: &'static str, message: &str| {
        table.refuse(name, message);
        false
    };
    match (has("user_dn"), has("base")) {
        (true, true) => {
            return refuse(
                "user_dn",
                "either a search or a template finds a user: remove user_dn, or base and filter",
            );
        }
        (true, false) if has("filter") => {
            return refuse("filter", "user_dn finds the user without a search: remove one of them");
        }
        (true, false) if has("bind_dn") => {
            return refuse(
                "bind_dn",
                "with user_dn nothing is searched as another entry than the user's: remove it",
            );
        }
        (false, false) if has("server") => {
            table.report("ldap: where are the users? Add base = \"ou=people,dc=example,dc=org\", or user_dn = \"uid=%u,ou=people,dc=example,dc=org\"");
            return false;
        }
        _ => {}
    }
    match (has("bind_dn"), has("bind_password_file")) {
        (true, false) => return refuse("bind_dn", "needs its password: add bind_password_file = \"FILE\""),
        (false, true) => return refuse("bind_password_file", "whose password is it? Add bind_dn = \"cn=…\""),
        _ => {}
    }
    let is_plain = agent.value("server").is_some_and(|server| server.starts_with("ldap:"));
    if has("clear_text") && has("server") && !is_plain {
        return refuse("clear_text", "is for ldap:// only: remove it");
    }
    for (name, needed) in [("group_filter", "group_base"), ("group_attribute", "group_base")] {
        if has(name) && !has(needed) {
            return refuse(
                name,
                "there are no groups: add group_base = \"ou=groups,dc=example,dc=org\", or remove it",
            );
        }
    }
    // Without a server, that was reported.
    agent.value("server").is_some()
}
