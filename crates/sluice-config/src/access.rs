//! `[[site.route]].access`: who may have an answer, and who the users are.
//!
//! The entries parse themselves (`sluice_settings::rule`) and say what is wrong with a text; here the message gets its place.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use sluice_settings::rule::{
    AccessRule, AccessSettings, AgentProgram, AgentSettings, OwnAgent, OwnAgentKind, Require, UserSource,
};

use super::agents::{LDAP_KEY, PAM_KEY, pam_without_settings};
use super::document::At;
use super::key::{Bounds, Key, Section, between, set};
use super::table::Table;

/// The longest time for which a verified password is remembered, and for which further ones are refused: a day.
const DAY_MILLIS: u64 = 86_400_000;

/// The value of `agent`.
enum AgentName {
    Path(String),
    Own(OwnAgentKind),
}

/// The section while it is read.
pub(super) struct Draft {
    realm: String,
    source: UserSource,
    agent: Option<AgentName>,
    agent_parameters: String,
    /// The settings of the agents that come with the server.
    pub(super) own_agents: Vec<AgentSettings>,
    require: Require,
    allow: Option<Vec<String>>,
    allow_write: Option<Vec<String>>,
    clear_text: bool,
    verdict_lifetime: Duration,
    failures_max: u32,
    refused_for: Duration,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            realm: "Restricted".to_owned(),
            source: UserSource::default(),
            agent: None,
            agent_parameters: String::new(),
            own_agents: Vec::new(),
            require: Require::Any,
            allow: None,
            allow_write: None,
            clear_text: false,
            verdict_lifetime: Duration::from_secs(300),
            failures_max: 10,
            refused_for: Duration::from_secs(300),
        }
    }
}

impl Draft {
    /// Completes the section: checks its keys together. `None` if something is wrong.
    pub(super) fn finish(mut self, table: &Table<'_>) -> Option<AccessSettings> {
        self.source.agent = self.finish_agent(table)?;
        let parse = |name: &'static str, texts: &[String]| {
            let rule = AccessRule::parse(self.require, texts.iter().map(String::as_str));
            rule.map_err(|message| table.refuse(name, &message)).ok()
        };
        let any_user = vec!["any-user".to_owned()];
        let read = parse("allow", self.allow.as_ref().unwrap_or(&any_user));
        let write = match &self.allow_write {
            Some(texts) => parse("allow_write", texts),
            None => read.clone(),
        };
        let (read, write) = (read?, write?);
        self.check_source([&read, &write], table).then(|| AccessSettings {
            origin: table.document.origin(table.line),
            realm: self.realm,
            source: Arc::new(self.source),
            read,
            write,
            is_write_named: self.allow_write.is_some(),
            clear_text: self.clear_text,
            verdict_lifetime: self.verdict_lifetime,
            failures_max: self.failures_max,
            refused_for: self.refused_for,
        })
    }

    /// The agent. The outer `None` if something is wrong.
    #[expect(clippy::option_option, reason = "an agent may be absent, or wrong")]
    fn finish_agent(&mut self, table: &Table<'_>) -> Option<Option<AgentSettings>> {
        let refuse = |name: &'static str, message: &str| {
            table.refuse(name, message);
            None
        };
        let kind_of = |agent: &AgentSettings| agent.own().map(|own| own.kind);
        let name = match (self.agent.take(), self.own_agents.as_slice()) {
            // What is wrong with them was reported.
            (None, []) if ["agent", "pam", "ldap"].into_iter().any(|key| table.has(key)) => return None,
            (None, [agent]) => kind_of(agent).map(AgentName::Own),
            (None, [_, _, ..]) => {
                return refuse(
                    "ldap",
                    "either PAM or LDAP verifies passwords: remove one of pam and ldap",
                );
            }
            (Some(AgentName::Own(kind)), agents) if agents.iter().any(|agent| kind_of(agent) != Some(kind)) => {
                return refuse(
                    "agent",
                    "pam and ldap are the settings of these agents: remove those of the other one",
                );
            }
            (Some(AgentName::Path(_)), [_, ..]) => {
                return refuse(
                    "agent",
                    "is a script; pam and ldap are the settings of agent = \"pam\" and \"ldap\": remove one of them",
                );
            }
            (name, _) => name,
        };
        if !matches!(name, Some(AgentName::Path(_))) && !self.agent_parameters.is_empty() {
            let message = match name {
                None => "there is no agent: add agent = \"/…\", or remove this",
                Some(_) => "are for scripts: this agent has its settings in pam = { … } or ldap = { … }",
            };
            return refuse("agent_parameters", message);
        }
        if name.is_some() && self.source.users.is_some() {
            let key = ["agent", "pam", "ldap"].into_iter().find(|key| table.has(key));
            let key = key.unwrap_or("users");
            let message = format!("either a users file or an agent verifies passwords: remove one of users and {key}");
            return refuse(key, &message);
        }
        Some(match (name, self.own_agents.pop()) {
            (None, _) => None,
            (Some(AgentName::Path(path)), _) => Some(AgentSettings {
                program: AgentProgram::Script(path),
                parameters: std::mem::take(&mut self.agent_parameters),
            }),
            (Some(AgentName::Own(_)), Some(agent)) => Some(agent),
            (Some(AgentName::Own(OwnAgentKind::Pam)), None) => Some(pam_without_settings(table)),
            // A wrong table was reported.
            (Some(AgentName::Own(OwnAgentKind::Ldap)), None) if table.has("ldap") => return None,
            (Some(AgentName::Own(OwnAgentKind::Ldap)), None) => {
                return refuse(
                    "agent",
                    "needs to know the server: add ldap = { server = \"ldaps://…\", base = \"dc=…\" }",
                );
            }
        })
    }

    /// Whether there are users if rules name them, and groups if rules name those.
    fn check_source(&self, rules: [&AccessRule; 2], table: &Table<'_>) -> bool {
        let names_users = rules.iter().any(|rule| rule.names_users());
        if names_users && !self.source.has_users() {
            table.report(
                "access: who are the users? Add users = \"FILE\" (\"sluice passwd --create FILE USER\" makes one), agent = \"pam\", \
                 ldap = { server = \"…\" }, agent = \"/…\", certificate_user = true or remote_user_from = \"X-Remote-User\"",
            );
            return false;
        }
        if !names_users && self.source.has_users() {
            table.report("access: no entry is about users: add \"any-user\", \"user:…\" or \"group:…\" to allow, or remove users, certificate_user and remote_user_from");
            return false;
        }
        // An agent names the groups of its users.
        let agent = self.source.agent.as_ref();
        let own = agent.and_then(AgentSettings::own);
        let has_groups =
            self.source.groups.is_some() || agent.is_some() && own.is_none_or(|own: &OwnAgent| own.has_groups);
        if let (Some(group), false) = (rules.iter().find_map(|rule| rule.groups().next()), has_groups) {
            let of_directory = match own {
                Some(_) => " group_base = \"…\" in ldap, the part of the directory that has the groups, or",
                None => "",
            };
            table.report(&format!(
                "access: who is in the group \"{group}\"? Add{of_directory} groups = \"FILE\", a file with lines as in \"{group}: ann bob\""
            ));
            return false;
        }
        true
    }
}

pub(super) static ACCESS: Section<Draft> = Section {
    title: "[[site.route]].access",
    keys: &[
        Key::text("realm", |access, realm, _| {
            if realm.is_empty() || !realm.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
                return Err("must be a name in printable ASCII, which browsers show, as in \"Staff\"".to_owned());
            }
            access.realm = realm;
            Ok(())
        }),
        Key::path("users", |access, path, _| set(&mut access.source.users, path)),
        Key::text("agent", |access, path, _| {
            access.agent = Some(match OwnAgentKind::named(&path) {
                Some(kind) => AgentName::Own(kind),
                None if path.starts_with('/') => AgentName::Path(path),
                None => {
                    return Err(
                            "must be \"pam\", \"ldap\", or a path of this site, as in \"/agents/check\", for which a route has a script"
                                .to_owned(),
                        );
                }
            });
            Ok(())
        }),
        Key::text("agent_parameters", |access, text, _| {
            if text.contains(['\n', '\0']) {
                return Err("must be one line".to_owned());
            }
            access.agent_parameters = text;
            Ok(())
        }),
        PAM_KEY,
        LDAP_KEY,
        Key::path("groups", |access, path, _| set(&mut access.source.groups, path)),
        Key::texts("allow", |access, texts, _| set(&mut access.allow, values(texts))),
        Key::texts("allow_write", |access, texts, _| {
            set(&mut access.allow_write, values(texts))
        }),
        Key::choice(
            "require",
            &[
                ("any", |access| access.require = Require::Any),
                ("all", |access| access.require = Require::All),
            ],
        ),
        Key::flag("clear_text", |access, is_allowed| access.clear_text = is_allowed),
        Key::duration("verdict_lifetime", up_to_a_day(0), |access, time| {
            access.verdict_lifetime = time;
        }),
        Key::number(
            "failures",
            "wrong passwords",
            between(1, 1_000_000, ""),
            |access, failures| access.failures_max = u32::try_from(failures).unwrap_or(u32::MAX),
        ),
        Key::duration("refused_for", up_to_a_day(1000), |access, time| {
            access.refused_for = time;
        }),
        Key::flag("certificate_user", |access, is_user| {
            access.source.certificate_user = is_user;
        }),
        Key::text("remote_user_from", |access, name, _| {
            let field = HeaderName::from_bytes(name.as_bytes());
            access.source.remote_user_from =
                Some(field.map_err(|_| "must be the name of a field, as in \"X-Remote-User\"".to_owned())?);
            Ok(())
        }),
    ],
};

const fn up_to_a_day(least: u64) -> Bounds {
    between(least, DAY_MILLIS, "")
}

fn values(texts: Vec<At<String>>) -> Vec<String> {
    texts.into_iter().map(|text| text.value).collect()
}
