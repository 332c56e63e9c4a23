//! The values of `access` of a route: who may have an answer.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::rule::glob::Word;
use crate::rule::names::{names, written};
use crate::rule::network::Network;

/// The kinds of entries, for messages.
const ENTRIES: &str =
    "\"any-user\", \"user:ann bob\", \"group:staff\", \"net:192.0.2.0/24\", \"certificate:CN=ann\" or \"all\"";

/// The access rules of a route, or an exception from an earlier route's access rules.
#[derive(Clone, Debug)]
pub enum AccessUse {
    /// Everybody may have the answer: an exception from what an earlier route says.
    Open,
    /// Only some may.
    Limited(Arc<AccessSettings>),
}

/// The users who may have an answer, and how they prove who they are.
#[derive(Clone, Debug)]
pub struct AccessSettings {
    /// The place in the configuration.
    pub origin: String,
    /// The name of the protected area, which browsers show (RFC 9110 §11.5). Printable ASCII.
    pub realm: String,
    /// The source of the users.
    pub source: Arc<UserSource>,
    /// The rule for reading.
    pub read: AccessRule,
    /// The rule for changes: requests with other methods than [`is_read`] names.
    pub write: AccessRule,
    /// Whether the configuration has a rule for changes of its own (`allow_write`).
    pub is_write_named: bool,
    /// Whether passwords are accepted over clear text from other machines.
    pub clear_text: bool,
    /// How long a verified password is not hashed again.
    pub verdict_lifetime: Duration,
    /// Wrong passwords of one user from one address until further ones are refused.
    pub failures_max: u32,
    /// How long further ones are refused.
    pub refused_for: Duration,
}

/// Where the users of a realm come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSource {
    /// The users file; `None` if no passwords are asked for.
    pub users: Option<PathBuf>,
    /// The group file.
    pub groups: Option<PathBuf>,
    /// The field in which a trusted proxy names the user.
    pub remote_user_from: Option<HeaderName>,
    /// Whether the common name (CN) of a verified client certificate is the user.
    pub certificate_user: bool,
    /// The script that is asked about passwords and tokens.
    pub agent: Option<AgentSettings>,
}

/// An authentication agent: a CGIplus script that is asked whether a password is right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentSettings {
    /// The program that is asked.
    pub program: AgentProgram,
    /// AUTH_AGENT.
    pub parameters: String,
}

/// The script of an authentication agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AgentProgram {
    /// The script at this path of the site.
    Script(String),
    /// A program that comes with the server.
    Own(OwnAgent),
}

/// An authentication agent that comes with the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnAgent {
    /// Which one.
    pub kind: OwnAgentKind,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Processes at most.
    pub processes_max: usize,
    /// A file with a password of its own, which is never sent to clients.
    pub password_file: Option<PathBuf>,
    /// Whether it tells the groups of its users.
    pub has_groups: bool,
    /// The directory of the agents. `None`: searched beside the program, then where it is installed.
    pub sdk: Option<PathBuf>,
}

/// The authentication agents that come with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OwnAgentKind {
    /// Accounts of the system, by PAM.
    Pam,
    /// A directory server, by LDAP.
    Ldap,
}

impl OwnAgentKind {
    /// All of them.
    pub const ALL: [OwnAgentKind; 2] = [OwnAgentKind::Pam, OwnAgentKind::Ldap];

    /// The name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            OwnAgentKind::Pam => "pam",
            OwnAgentKind::Ldap => "ldap",
        }
    }

    /// The agent with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<OwnAgentKind> {
        OwnAgentKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl AgentSettings {
    /// The name for people: the path of a script, or that of an agent of the server.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.program {
            AgentProgram::Script(path) => path,
            AgentProgram::Own(agent) => agent.kind.name(),
        }
    }

    /// The agent, if it comes with the server.
    #[must_use]
    pub fn own(&self) -> Option<&OwnAgent> {
        match &self.program {
            AgentProgram::Own(agent) => Some(agent),
            AgentProgram::Script(_) => None,
        }
    }

    /// Whether it may know tokens (`Authorization: Bearer`).
    #[must_use]
    pub fn takes_tokens(&self) -> bool {
        self.own().is_none()
    }
}

impl UserSource {
    /// Whether there can be users at all.
    #[must_use]
    pub fn has_users(&self) -> bool {
        self.asks_for_passwords() || self.remote_user_from.is_some() || self.certificate_user
    }

    /// The files with passwords, hashes and groups, which are never sent to clients.
    pub fn secret_files(&self) -> impl Iterator<Item = &PathBuf> {
        // Each field is named, so that the compiler asks about a new one.
        let UserSource {
            users,
            groups,
            remote_user_from: _,
            certificate_user: _,
            agent,
        } = self;
        let own = agent.as_ref().and_then(AgentSettings::own);
        let of_agent = own.and_then(|agent| {
            let OwnAgent {
                kind: _,
                timeout: _,
                processes_max: _,
                password_file,
                has_groups: _,
                sdk: _,
            } = agent;
            password_file.as_ref()
        });
        users.iter().chain(groups).chain(of_agent)
    }

    /// Whether users can prove who they are by a password.
    #[must_use]
    pub fn asks_for_passwords(&self) -> bool {
        self.users.is_some() || self.agent.is_some()
    }
}

/// A list of entries.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessRule {
    /// How many of the entries must hold.
    pub require: Require,
    /// The entries, at least one.
    pub entries: Vec<AccessEntry>,
    /// The entries with `!`. Users and clients that one of them matches are refused, whatever the other entries say.
    pub but: Vec<AccessEntry>,
}

/// How many of the entries of a rule must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Require {
    /// One of them must hold.
    #[default]
    Any,
    /// Each of them.
    All,
}

/// An entry of a rule. If it has several names, one must match.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessEntry {
    /// Everybody, without a password.
    All,
    /// Every user who has proved who they are.
    AnyUser,
    /// These users.
    Users(Vec<String>),
    /// The members of these groups.
    Groups(Vec<String>),
    /// Clients in these networks.
    Networks(Networks),
    /// Clients with a verified certificate whose subject has these attributes (`CN=ann`); each of them if there are several.
    Certificate(Vec<String>),
}

/// Networks of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Networks(Vec<Network>);

impl Networks {
    /// Whether one of them contains an address.
    #[must_use]
    pub fn contain(&self, client: IpAddr) -> bool {
        self.0.iter().any(|network| network.holds(client))
    }
}

/// Whether a method only reads: it is safe (RFC 9110 §9.2.1), by that RFC, WebDAV (RFC 4918, RFC 3253, RFC 5323) or RFC 10008 (QUERY).
#[must_use]
pub fn is_read(method: &Method) -> bool {
    const NAMES: [&str; 8] = [
        "GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY",
    ];
    NAMES.contains(&method.as_str())
}

impl AccessSettings {
    /// Access for the clients of this machine, which need no password. `origin` is its place for messages.
    #[must_use]
    pub fn of_this_machine(origin: &str) -> AccessSettings {
        let loopback = [
            IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
            IpNet::new_assert(Ipv6Addr::LOCALHOST.into(), 128),
        ];
        let networks = loopback.into_iter().map(Network::from).collect();
        let rule = AccessRule {
            require: Require::Any,
            entries: vec![AccessEntry::Networks(Networks(networks))],
            but: Vec::new(),
        };
        AccessSettings {
            origin: origin.to_owned(),
            realm: "This machine".to_owned(),
            source: Arc::default(),
            read: rule.clone(),
            write: rule,
            is_write_named: true,
            clear_text: false,
            verdict_lifetime: Duration::ZERO,
            failures_max: 1,
            refused_for: Duration::ZERO,
        }
    }

    /// The rule for a method.
    #[must_use]
    pub fn rule(&self, method: &Method) -> &AccessRule {
        if is_read(method) { &self.read } else { &self.write }
    }
}

impl AccessRule {
    /// Parses the entries of a list.
    ///
    /// # Errors
    /// A message about the first wrong entry, with what to write instead.
    pub fn parse<'a>(require: Require, texts: impl IntoIterator<Item = &'a str>) -> Result<AccessRule, String> {
        let (mut entries, mut but) = (Vec::new(), Vec::new());
        for text in texts {
            let (list, entry) = match text.strip_prefix('!') {
                Some(entry) => (&mut but, entry),
                None => (&mut entries, text),
            };
            let parsed = AccessEntry::parse(entry).map_err(|message| format!("\"{text}\": {message}"))?;
            // Whoever is meant by a name with a blank would be let in.
            if text.starts_with('!')
                && let Some(example) = parsed.ambiguity(entry)
            {
                return Err(format!(
                    "\"{text}\": is this one name with a blank, or several names? Write '!{example}', or an entry for each name"
                ));
            }
            list.push(parsed);
        }
        if entries.is_empty() {
            return Err(format!(
                "nobody would have access: write {ENTRIES}, or refuse = {{ status = 403 }} for nobody"
            ));
        }
        if but.contains(&AccessEntry::All) {
            return Err("\"!all\": nobody would have access: write refuse = { status = 403 } for nobody".to_owned());
        }
        Ok(AccessRule { require, entries, but })
    }

    /// Whether an entry needs to know the user.
    #[must_use]
    pub fn names_users(&self) -> bool {
        self.all_entries().any(AccessEntry::is_about_users)
    }

    /// The groups that the entries name.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.all_entries()
            .flat_map(|entry| match entry {
                AccessEntry::Groups(names) => names.as_slice(),
                _ => &[],
            })
            .map(String::as_str)
    }

    /// Whether an entry is about certificates.
    #[must_use]
    pub fn names_certificates(&self) -> bool {
        self.all_entries()
            .any(|entry| matches!(entry, AccessEntry::Certificate(_)))
    }

    /// Whether an entry is about the addresses of clients.
    #[must_use]
    pub fn names_networks(&self) -> bool {
        self.all_entries()
            .any(|entry| matches!(entry, AccessEntry::Networks(_)))
    }

    /// Whether an entry grants something to an address.
    #[must_use]
    pub fn grants_to(&self, client: IpAddr) -> bool {
        self.entries
            .iter()
            .any(|entry| matches!(entry, AccessEntry::Networks(networks) if networks.contain(client)))
    }

    fn all_entries(&self) -> impl Iterator<Item = &AccessEntry> {
        self.entries.iter().chain(&self.but)
    }
}

impl AccessEntry {
    fn parse(text: &str) -> Result<AccessEntry, String> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, rest.trim()),
            None => (text, ""),
        };
        match (kind, rest) {
            ("all", "") => Ok(AccessEntry::All),
            ("any-user", "") => Ok(AccessEntry::AnyUser),
            ("valid-user" | "*", "") => Err("every user is written \"any-user\"".to_owned()),
            ("user" | "group" | "net" | "certificate", "") => Err(format!("names nothing: write {ENTRIES}")),
            ("user", _) => names(rest).map(AccessEntry::Users),
            ("group", _) => names(rest).map(AccessEntry::Groups),
            ("net", _) => {
                let networks: Result<_, _> = rest.split_whitespace().map(Network::read).collect();
                networks.map(|networks| AccessEntry::Networks(Networks(networks)))
            }
            ("certificate", _) => {
                let attributes = split_name(rest);
                match attributes.iter().find(|attribute| !attribute.contains('=')) {
                    Some(wrong) => Err(format!(
                        "{wrong:?} is not an attribute of a subject, as in \"certificate:CN=ann\" or \"certificate:CN=ann,O=Example\""
                    )),
                    None => Ok(AccessEntry::Certificate(attributes)),
                }
            }
            ("ip" | "host" | "address" | "network", _) => Err(format!("networks are written \"net:{rest}\"")),
            ("users" | "groups", _) => Err(format!("is written \"{}:{rest}\"", kind.trim_end_matches('s'))),
            _ if kind.parse::<IpAddr>().is_ok() || text.parse::<IpAddr>().is_ok() || kind.contains('/') => {
                Err(format!("a network is written \"net:{text}\""))
            }
            (_, "") if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Err(format!("a user is written \"user:{text}\", a group \"group:{text}\""))
            }
            _ => Err(format!("must be {ENTRIES}")),
        }
    }

    /// How an entry about users or groups is written if its text is one name with blanks; `None` if the text cannot be meant so.
    fn ambiguity(&self, text: &str) -> Option<String> {
        match self {
            AccessEntry::Users(names) | AccessEntry::Groups(names) if names.len() > 1 && !text.contains('"') => {
                let (kind, name) = text.split_once(':')?;
                Some(format!("{kind}:\"{}\"", name.trim()))
            }
            _ => None,
        }
    }

    /// The entry as it is written if its names, which have no blanks, are the words of one name; `None` if it has one name.
    #[must_use]
    pub fn as_one_name(&self) -> Option<String> {
        self.ambiguity(&self.to_string())
    }

    /// Whether it needs to know the user.
    #[must_use]
    pub fn is_about_users(&self) -> bool {
        matches!(
            self,
            AccessEntry::AnyUser | AccessEntry::Users(_) | AccessEntry::Groups(_)
        )
    }
}

/// Splits a name as RFC 4514 writes it at the commas that are not escaped: `CN=Ann,O=Example` has two attributes.
#[must_use]
pub fn split_name(name: &str) -> Vec<String> {
    let mut is_escaped = false;
    let is_end = |letter: char| {
        let is_end = letter == ',' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    };
    name.split(is_end)
        .map(|attribute| trimmed(attribute).to_owned())
        .collect()
}

/// An attribute without the blanks around it; one that is escaped is a part of it.
fn trimmed(attribute: &str) -> &str {
    let attribute = attribute.trim_start();
    let end = attribute.trim_end();
    let escapes = end.bytes().rev().take_while(|byte| *byte == b'\\').count();
    let blank = attribute[end.len()..].chars().next().filter(|_| escapes % 2 == 1);
    &attribute[..end.len() + blank.map_or(0, char::len_utf8)]
}

/// Writes the entry as the configuration has it.
impl fmt::Display for AccessEntry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessEntry::All => out.write_str("all"),
            AccessEntry::AnyUser => out.write_str("any-user"),
            AccessEntry::Users(names) => write!(out, "user:{}", written(names)),
            AccessEntry::Groups(names) => write!(out, "group:{}", written(names)),
            AccessEntry::Networks(Networks(networks)) => {
                let networks: Vec<_> = networks.iter().map(ToString::to_string).collect();
                write!(out, "net:{}", networks.join(" "))
            }
            AccessEntry::Certificate(attributes) => write!(out, "certificate:{}", attributes.join(",")),
        }
    }
}

/// For people: `user:ann or net:192.0.2.0/24, but not user:eve`.
impl fmt::Display for AccessRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |entries: &[AccessEntry], between: &str| {
            let entries: Vec<_> = entries.iter().map(ToString::to_string).collect();
            entries.join(between)
        };
        let between = match self.require {
            Require::Any => " or ",
            Require::All => " and ",
        };
        out.write_str(&listed(&self.entries, between))?;
        if !self.but.is_empty() {
            write!(out, ", but not {}", listed(&self.but, " or "))?;
        }
        Ok(())
    }
}

/// For people: `access: any-user; changes: group:staff`.
impl fmt::Display for AccessUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessUse::Open => out.write_str("access for everybody"),
            AccessUse::Limited(access) if access.read == access.write => write!(out, "access for {}", access.read),
            AccessUse::Limited(access) => {
                write!(out, "access for {}, changes for {}", access.read, access.write)
            }
        }
    }
}

/// The rules of all paths that lead to one answer.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The rules of the last route that says something about the path.
    pub own: Option<AccessUse>,
    /// The rules of other paths of the same answer, each of which must be satisfied, too. Usually empty.
    others: Vec<Arc<AccessSettings>>,
}

impl Access {
    /// The access that a route says.
    #[must_use]
    pub fn of(access: AccessUse) -> Access {
        Access { own: Some(access), others: Vec::new() }
    }

    /// The agent that comes with the server, if its route asks one.
    #[must_use]
    pub fn own_agent(&self) -> Option<&OwnAgent> {
        match &self.own {
            Some(AccessUse::Limited(access)) => access.source.agent.as_ref()?.own(),
            _ => None,
        }
    }

    /// Whether nothing is said about it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_none() && self.others.is_empty()
    }

    /// Takes what a later route says, instead of what an earlier one has said about the same path.
    pub fn merge(&mut self, later: &Access) {
        later.own.iter().for_each(|access| self.take(access));
        later.others.iter().for_each(|access| self.require(access));
    }

    /// Takes what a route says, instead of what an earlier one has said about the same path.
    pub fn take(&mut self, access: &AccessUse) {
        self.own = Some(access.clone());
    }

    /// Adds rules of another path that must be satisfied, too.
    pub fn require(&mut self, access: &Arc<AccessSettings>) {
        let is_same = |other: &Arc<AccessSettings>| Arc::ptr_eq(other, access);
        if !self.limits().any(is_same) {
            self.others.push(Arc::clone(access));
        }
    }

    /// Adds all rules of another path of the same answer, such as the directory of an index page.
    pub fn join(&mut self, earlier: &Access) {
        earlier.limits().for_each(|access| self.require(access));
    }

    /// The rules; all of them must be satisfied.
    pub fn limits(&self) -> impl Iterator<Item = &Arc<AccessSettings>> {
        let own = match &self.own {
            Some(AccessUse::Limited(access)) => Some(access),
            Some(AccessUse::Open) | None => None,
        };
        own.into_iter().chain(&self.others)
    }

    /// Whether everybody may have the answer.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.limits().next().is_none()
    }
}

#[cfg(test)]
mod tests;
