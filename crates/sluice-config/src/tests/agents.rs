//! Authentication agents that come with the server: their settings, and the messages about those that do not go together.

use std::time::Duration;

use sluice_settings::rule::{AccessUse, AgentProgram, AgentSettings, OwnAgentKind};

use super::read;

/// A configuration with this `access`.
fn with_access(access: &str) -> String {
    format!("[[site]]\nroute = [{{ path = '/a/*', access = {{ {access} }} }}]")
}

/// The agent of a route with this `access`.
#[track_caller]
fn agent_of(access: &str) -> AgentSettings {
    let text = with_access(access);
    let settings = read(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    match &settings.sites[0].routes[0].changes.access.own {
        Some(AccessUse::Limited(access)) => access.source.agent.clone().expect("an agent"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_is_named_or_has_settings() {
    for access in [
        "agent = 'pam'",
        "pam = {}",
        "agent = 'pam', pam = { service = 'sluice' }",
    ] {
        let agent = agent_of(access);
        let own = agent.own().expect("an agent of the server");
        assert_eq!(
            (own.kind, own.timeout, own.processes_max),
            (OwnAgentKind::Pam, Duration::from_secs(10), 4)
        );
        assert!(
            agent.parameters.starts_with("timeout=10") && !agent.takes_tokens(),
            "{agent:?}"
        );
    }
    let agent = agent_of(
        "allow = ['group:staff'], ldap = { server = ['ldap://a', 'ldap://b'], base = 'dc=x', filter = '(&(a=b)(mail=%u))', bind_dn = 'cn=w', \
         bind_password_file = 'secret', group_base = 'ou=g', timeout = '2500ms', processes = 7 }",
    );
    let expected = "timeout=2.5\tserver=ldap://a ldap://b\tbase=dc=x\tfilter=(&(a=b)(mail=%u))\tbind_dn=cn=w\t\
                    bind_password_file=/etc/sluice/secret\tgroup_base=ou=g";
    assert_eq!(agent.parameters, expected);
    let own = agent.own().expect("an agent of the server");
    assert_eq!(
        (own.kind, own.processes_max, own.has_groups),
        (OwnAgentKind::Ldap, 7, true)
    );
    assert_eq!(own.password_file.as_deref(), Some("/etc/sluice/secret".as_ref()));
    let script = agent_of("agent = '/agents/check', agent_parameters = 'x y'");
    assert_eq!(
        (script.program, script.parameters.as_str()),
        (AgentProgram::Script("/agents/check".into()), "x y")
    );
}

#[test]
fn settings_of_agents_that_do_not_go_together_are_reported() {
    assert_refused(&[
        (
            "agent = 'check'".to_owned(),
            "must be \"pam\", \"ldap\", or a path of this site",
        ),
        (
            "agent = 'ldap'".to_owned(),
            "needs to know the server: add ldap = { server",
        ),
        (
            "agent = 'pam', users = 'base'".to_owned(),
            "agent = 'pam': either a users file or an agent verifies passwords",
        ),
        (
            "pam = {}, users = 'base'".to_owned(),
            "pam = {}: either a users file or an agent verifies passwords",
        ),
        (
            "pam = {}, ldap = { server = 'ldaps://a', base = 'o=x' }".to_owned(),
            "either PAM or LDAP verifies passwords",
        ),
        ("agent = 'ldap', pam = {}".to_owned(), "remove those of the other one"),
        (
            "agent = '/a', pam = {}".to_owned(),
            "is a script; pam and ldap are the settings of",
        ),
        (
            "agent = 'pam', agent_parameters = 'x'".to_owned(),
            "this agent has its settings in pam = { … }",
        ),
        ("agent_parameters = 'x', users = 'base'".to_owned(), "there is no agent"),
        (
            "pam = { service = '../x' }".to_owned(),
            "must be the name of a file in /etc/pam.d",
        ),
        (
            "pam = { service = 'missing' }".to_owned(),
            "the service \"missing\" has no file (/etc/pam.d/missing)",
        ),
    ]);
}

#[test]
fn settings_of_ldap_that_do_not_go_together_are_reported() {
    const LDAP: &str = "server = 'ldaps://a'";
    assert_refused(&[
        ("ldap = { base = 'o=x' }".to_owned(), "server"),
        (format!("ldap = {{ {LDAP} }}"), "where are the users? Add base"),
        (
            "ldap = { server = 'ldap.example.org', base = 'o=x' }".to_owned(),
            "must be an address as in \"ldaps://ldap.example.org\"",
        ),
        (
            "ldap = { server = ['ldap://a', 'ldaps://b'], base = 'o=x' }".to_owned(),
            "in the same way",
        ),
        (
            format!("ldap = {{ {LDAP}, base = 'o=x', filter = 'uid=%u' }}"),
            "must be a filter in parentheses",
        ),
        (
            format!("ldap = {{ {LDAP}, base = 'o=x', filter = '(uid=ann)' }}"),
            "must have %u",
        ),
        (format!("ldap = {{ {LDAP}, user_dn = 'uid=ann' }}"), "must have %u"),
        (
            format!("ldap = {{ {LDAP}, user_dn = 'uid=%u', base = 'o=x' }}"),
            "either a search or a template",
        ),
        (
            format!("ldap = {{ {LDAP}, base = 'o=x', bind_dn = 'cn=w' }}"),
            "needs its password: add bind_password_file",
        ),
        (
            format!("ldap = {{ {LDAP}, base = 'o=x', bind_password_file = 'y' }}"),
            "whose password is it?",
        ),
        (
            format!("ldap = {{ {LDAP}, base = 'o=x', clear_text = true }}"),
            "is for ldap:// only",
        ),
        (
            format!("ldap = {{ {LDAP}, base = 'o=x', group_filter = '(a=%u)' }}"),
            "there are no groups: add group_base",
        ),
        (format!("ldap = {{ {LDAP}, base = \"a\\tb\" }}"), "base"),
        (
            format!("ldap = {{ {LDAP}, base = 'not a dn' }}"),
            "must be the name of an entry, as in \"ou=staff,dc=example,dc=org\"",
        ),
        (
            format!("ldap = {{ {LDAP}, base = 'o=x' }}, allow = ['group:staff']"),
            "Add group_base = \"…\" in ldap",
        ),
        (
            format!("ldap = {{ {LDAP}, base = 'o=x', bind_dn = 'a', bind_password_file = 'missing' }}"),
            "/etc/sluice/missing: No such file",
        ),
    ]);
}

/// Each of these settings is refused, with a message that has the text beside it.
fn assert_refused(cases: &[(String, &str)]) {
    for (access, expected) in cases {
        let text = with_access(access);
        let errors = read(&text).expect_err(&text).to_string();
        assert!(errors.contains(expected), "{access}: {errors}");
    }
}
