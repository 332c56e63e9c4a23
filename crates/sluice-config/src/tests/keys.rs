//! The lists of keys against the settings that they make: every key's effect and default, and the example file.

use std::time::Duration;

use proptest::prelude::*;
use sluice_settings::{Action, Mode, ScriptSource};

use super::super::description::{Described, Entry, Fallback};
use super::super::root::ROOT;
use super::read;

/// The example of the manual.
const EXAMPLE: &str = include_str!("../../../../examples/sluice.toml");

/// Every key, with its section.
fn all_keys(section: &'static dyn Described) -> Vec<(&'static dyn Described, Entry)> {
    let mut keys = Vec::new();
    for key in section.keys() {
        let below = key.below;
        keys.push((section, key));
        keys.extend(below.into_iter().flat_map(all_keys));
    }
    keys
}

/// A file on one line with a section that has its required keys, and this key with this value (`None`: without the key).
fn with_key(section: &dyn Described, key: &Entry, value: Option<&str>) -> String {
    let is_list = key.below.is_some_and(|below| below.title().ends_with("]]"));
    let value = value.map(|value| match is_list {
        true => format!("[{value}]"),
        false => value.to_owned(),
    });
    let needed: &[(&str, &str)] = match section.title() {
        "" => &[("site", "[{ root = 'base' }]")],
        "[[listen]]" => match key.name {
            "mode" => &[("address", "'unix:run/s'")],
            _ => &[("address", "'127.0.0.1:1'")],
        },
        "[[listen]].tls" => match (key.name, value.as_deref()) {
            ("client_authorities", Some(_)) => &[("certificate", "'cert.pem'"), ("client_certificates", "'optional'")],
            ("client_crl", _) => &[
                ("certificate", "'cert.pem'"),
                ("client_certificates", "'optional'"),
                ("client_authorities", "'ca.pem'"),
            ],
            ("client_certificates", Some("\"required\"")) => {
                &[("certificate", "'cert.pem'"), ("client_authorities", "'ca.pem'")]
            }
            ("certificate", _) => &[("certificate", "'other.pem'")],
            _ => &[("certificate", "'cert.pem'")],
        },
        "[site.tls]" => &[("certificate", "'other.pem'")],
        "[[site]]" => match key.name {
            "client_certificates" | "client_crl" => &[
                ("root", "'base'"),
                ("hosts", "['base']"),
                ("client_authorities", "'ca.pem'"),
            ],
            _ => &[("root", "'base'"), ("hosts", "['base']")],
        },
        "[[site.route]]" => match key.name {
            // `files` does not go with a regular expression; a redirect does.
            "regex" => &[("path", "'/base/*'"), ("redirect", "{ to = '/other' }")],
            // Reports need access rules.
            "reports" => &[
                ("path", "'/base/*'"),
                ("files", "{ directory = 'base' }"),
                ("access", "{ allow = ['net:::1'] }"),
            ],
            _ => &[("path", "'/base/*'"), ("files", "{ directory = 'base' }")],
        },
        "[server]" => match key.name {
            "forwarded" => &[("trusted_proxies", "['::1']")],
            "dns_timeout" | "dns_server" => &[("dns_lookup", "true")],
            _ => &[],
        },
        "[log]" | "[site.log]" => match key.name {
            "access" | "format" | "diagnostics" | "level" | "json" => &[],
            "keep" => &[("access", "'base.log'"), ("rotate", "'daily'")],
            _ => &[("access", "'base.log'")],
        },
        "[[site.route]].files" => match key.name {
            "convert" => &[("directory", "'base'"), ("record_format", "'vfc'")],
            _ => &[("directory", "'base'")],
        },
        "[[site.route]].access" => match (key.name, value.is_some()) {
            ("agent", true) => &[("realm", "'base'")],
            ("agent_parameters", true) => &[("agent", "'/base'")],
            ("pam" | "ldap", true) => &[],
            _ => &[("users", "'base'")],
        },
        "[[site.route]].access.ldap" => {
            const SERVER: (&str, &str) = ("server", "'ldap://a'");
            match (key.name, value.is_some()) {
                ("user_dn" | "base", true) => &[SERVER],
                ("bind_dn", true) => &[SERVER, ("base", "'o=b'"), ("bind_password_file", "'base'")],
                ("bind_password_file", true) => &[SERVER, ("base", "'o=b'"), ("bind_dn", "'cn=base'")],
                ("group_filter" | "group_attribute", _) => &[SERVER, ("base", "'o=b'"), ("group_base", "'o=g'")],
                _ => &[SERVER, ("base", "'o=b'")],
            }
        }
        "[[site.route]].throttle" => &[("at_once", "3")],
        "[[site.route]].redirect" => &[("to", "'/base'")],
        "[[site.route]].when" if value.is_none() => &[("method", "'BASE'")],
        "[[site.route]].script" => match key.name {
            "app" | "fresh" | "virtualenv" => &[("directory", "'base'"), ("mode", "'rte'"), ("engine", "'python'")],
            "php_value" | "php_admin_value" => &[("directory", "'base'"), ("mode", "'rte'"), ("engine", "'php'")],
            "engine" => &[
                ("directory", "'base'"),
                ("mode", "'rte'"),
                ("interpreters", "{ '.x' = 'perl' }"),
            ],
            "mode" | "request_body" | "arguments" => &[("directory", "'base'")],
            "proctor" => &[("directory", "'base'"), ("mode", "'cgiplus'"), ("min", "1")],
            "chroot" => &[("directory", "'jail/base'")],
            _ => &[("directory", "'base'"), ("mode", "'cgiplus'")],
        },
        "[server.script_owners]" => match key.name {
            "users" => &[("directories", "['/base']"), ("groups", "['1']")],
            _ => &[("directories", "['/base']"), ("users", "['1:1']")],
        },
        "[site.route.script.engine]" => &[("program", "'base'")],
        _ => &[],
    };
    let replaced = |name: &str| match (key.name, value.is_some()) {
        ("directory", true) if section.title() == "[[site.route]]" => name == "files",
        ("script" | "redirect" | "refuse" | "reports" | "rewrite", true) => name == "files",
        ("regex", true) => name == "path",
        ("file", true) => name == "directory",
        (own, true) => name == own,
        // Required keys stay, so that the file without the key is valid.
        (_, false) => false,
    };
    let mut pairs: Vec<String> = needed
        .iter()
        .filter(|(name, _)| !replaced(name))
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    pairs.extend(value.map(|value| format!("{} = {value}", key.name)));
    let inner = format!("{{ {} }}", pairs.join(", "));
    let route = |route: String| {
        let clients = "client_certificates = 'optional', client_authorities = 'ca.pem'";
        let tls = format!("{{ certificate = 'cert.pem', {clients} }}");
        format!(
            "listen = [{{ address = '127.0.0.1:1', tls = {tls} }}]\nsite = [{{ root = 'base', route = [{route}] }}]"
        )
    };
    match section.title() {
        "[[site]]" if key.name == "use" => {
            format!("blocks = {{ public = {{ index = ['a'] }} }}\nsite = [{inner}]")
        }
        "[[site.route]]" if key.name == "use" => {
            format!("blocks = {{ php = {{ log = false }} }}\n{}", route(inner))
        }
        "[blocks.NAME]" => {
            format!("blocks = {{ NAME = {inner}, security = {{ log = false }} }}\nsite = [{{ root = 'base' }}]")
        }
        "" => format!("{}\n", pairs.join("\n")),
        "[[listen]]" => format!(
            "listen = [{inner}, {{ address = '127.0.0.1:2', tls = {{ certificate = 'cert.pem' }} }}]\nsite = [{{ root = 'base' }}]"
        ),
        "[[listen]].tls" => {
            format!("listen = [{{ address = '127.0.0.1:1', tls = {inner} }}]\nsite = [{{ root = 'base' }}]")
        }
        "[site.tls]" => format!("site = [{{ root = 'base', hosts = ['base'], tls = {inner} }}]"),
        // The file has another site then.
        "[[site]]" if key.name == "enabled" => format!("site = [{inner}, {{ root = 'other' }}]"),
        "[[site]]" => {
            format!(
                "listen = [{{ address = '127.0.0.1:8080', tls = {{ certificate = 'cert.pem' }} }}]\nsite = [{inner}]"
            )
        }
        "[site.log]" => format!("site = [{{ root = 'base', log = {inner} }}]"),
        "[site.compression]" => format!("site = [{{ root = 'base', compression = {inner} }}]"),
        "[[site.route]]" => route(inner),
        "[[site.route]].files" => route(format!("{{ path = '/base/*', files = {inner} }}")),
        "[[site.route]].redirect" => route(format!("{{ path = '/a/*', redirect = {inner} }}")),
        "[[site.route]].when" => route(format!(
            "{{ path = '/base/*', when = {inner}, files = {{ directory = 'base' }} }}"
        )),
        "[[site.route]].access" => route(format!("{{ path = '/base/*', access = {inner} }}")),
        "[[site.route]].access.pam" => route(format!("{{ path = '/base/*', access = {{ pam = {inner} }} }}")),
        "[[site.route]].access.ldap" => route(format!("{{ path = '/base/*', access = {{ ldap = {inner} }} }}")),
        "[[site.route]].throttle" => route(format!("{{ path = '/base/*', throttle = {inner} }}")),
        "[[site.route]].refuse" => route(format!("{{ path = '/base/*', refuse = {inner} }}")),
        "[[site.route]].headers" => route(format!(
            "{{ path = '/base/*', headers = {inner}, files = {{ directory = 'base' }} }}"
        )),
        "[[site.route]].limits" => route(format!(
            "{{ path = '/base/*', limits = {inner}, files = {{ directory = 'base' }} }}"
        )),
        "[[site.route]].script" => route(format!("{{ path = '/base/*', script = {inner} }}")),
        "[site.route.script.engine]" => route(format!(
            "{{ path = '/base/*', script = {{ directory = 'base', mode = 'rte', engine = {inner} }} }}"
        )),
        // Only scripts of engines are affected.
        "[server]" if key.name == "sdk" => format!(
            "server = {inner}\nsite = [{{ route = [{{ path = '/base/*', script = {{ directory = 'base', mode = 'rte', engine = 'perl' }} }}] }}]"
        ),
        title => format!(
            "{} = {inner}\nsite = [{{ root = 'base', hosts = ['base'] }}]",
            title.trim_matches(['[', ']'])
        ),
    }
}

/// The settings of a file, as text that is equal only for equal settings.
#[track_caller]
fn settings_of(text: &str) -> String {
    let settings = read(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    format!("{settings:?}").replace("sluice.toml:2", "sluice.toml:1")
}

#[test]
fn every_key_is_read_and_its_example_changes_the_settings() {
    for (section, key) in &all_keys(&ROOT) {
        // The number of processors is the default, whatever it is here.
        let other = match key.name {
            "workers" => Some("1"),
            "server" if section.title().is_empty() => Some("{ workers = 1 }"),
            _ => None,
        };
        let (with, without) = (
            with_key(*section, key, Some(key.example)),
            with_key(*section, key, other),
        );
        assert_ne!(
            settings_of(&with),
            settings_of(&without),
            "{} {}\n{with}\n{without}",
            section.title(),
            key.name
        );
    }
}

#[test]
fn every_default_is_what_holds_without_the_key() {
    for (section, key) in &all_keys(&ROOT) {
        let Some(Fallback::Value(default)) = key.default else {
            continue;
        };
        let (with, without) = (with_key(*section, key, Some(default)), with_key(*section, key, None));
        assert_eq!(
            settings_of(&with),
            settings_of(&without),
            "{} {}",
            section.title(),
            key.name
        );
    }
}

#[test]
fn every_mode_is_a_word_of_its_key() {
    // The compiler asks for an arm for a new mode.
    let next = |mode: Mode| match mode {
        Mode::Cgi => Some(Mode::Cgiplus),
        Mode::Cgiplus => Some(Mode::Rte),
        Mode::Rte => None,
    };
    let keys = all_keys(&ROOT);
    let (_, key) = keys
        .iter()
        .find(|(section, key)| section.title() == "[[site.route]].script" && key.name == "mode")
        .expect("the key of the mode");
    for mode in std::iter::successors(Some(Mode::Cgi), |mode| next(*mode)) {
        assert!(key.value.contains(&format!("`\"{}\"`", mode.name())), "{}", key.value);
    }
}

#[test]
fn every_key_is_described_once_in_sentences() {
    let keys = all_keys(&ROOT);
    for (index, (section, key)) in keys.iter().enumerate() {
        assert!(
            key.text.ends_with('.') && !key.text.contains("  "),
            "{}: {:?}",
            key.name,
            key.text
        );
        assert_eq!(key.default.is_none(), key.is_required, "the default of {}", key.name);
        let twice = keys[..index]
            .iter()
            .any(|(other, earlier)| other.title() == section.title() && earlier.name == key.name);
        assert!(!twice, "{} is listed twice in {}", key.name, section.title());
    }
}

#[test]
fn scripts_get_the_defaults_of_their_mode() {
    let with_script = |keys: &str| {
        format!("site = [{{ route = [{{ path = '/*', script = {{ directory = 'cgi-bin', {keys} }} }}] }}]")
    };
    let max = |keys: &str| match &read(&with_script(keys)).expect("a valid script").sites[0].routes[0].action {
        Action::Script(script) => (script.mode, script.pool.max),
        other => panic!("{other:?} is not a script"),
    };
    assert_eq!(max(""), (Mode::Cgi, 64));
    assert_eq!(max("mode = 'cgiplus'"), (Mode::Cgiplus, 16));
    assert_eq!(max("mode = 'rte', engine = 'php'"), (Mode::Rte, 16));
}

#[test]
fn the_example_of_the_manual_is_a_valid_configuration() {
    let text = EXAMPLE;
    let settings = read(text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(settings.sites.len() > 1 && settings.listen.len() > 1, "{settings:?}");
    let routes = &settings.sites[0].routes;
    let scripts = routes.iter().filter_map(|route| match &route.action {
        Action::Script(script) => Some(script.source.clone()),
        _ => None,
    });
    let scripts: Vec<ScriptSource> = scripts.collect();
    assert!(
        scripts.contains(&ScriptSource::Root) && scripts.iter().any(|source| matches!(source, ScriptSource::File(_)))
    );
    assert!(settings.limits.drain_timeout > Duration::ZERO);
    // Lines that are commented out with `#:` are valid as well.
    let all = text
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n");
    assert_ne!(all, text, "the example shows keys that are commented out");
    read(&all).unwrap_or_else(|errors| panic!("{errors}"));
}

proptest! {
    /// A file may be damaged in any way: it is read or refused, with at least one line about it.
    #[test]
    fn no_damage_to_a_file_panics(from in 0..6000_usize, length in 0..60_usize, put in "[\\[\\]{}=,'\"a-z0-9*/\\n\u{0}é-]{0,12}") {
        let whole: Vec<char> = EXAMPLE.chars().collect();
        let from = from % whole.len();
        let after = (from + length).min(whole.len());
        let damaged: String = whole[..from].iter().copied().chain(put.chars()).chain(whole[after..].iter().copied()).collect();
        if let Err(errors) = read(&damaged) {
            prop_assert!(errors.to_string().starts_with("sluice.toml:"), "{}", errors);
        }
    }
}

#[test]
fn a_key_in_the_singular_is_answered_with_its_plural() {
    let shown = read("[[site]]\nroot = 'a'\nhost = 'example.org'")
        .expect_err("a mistake")
        .to_string();
    assert!(
        shown.contains("did you mean \"hosts\"?") && !shown.contains("top of the file"),
        "{shown}"
    );
}

#[test]
fn an_address_whose_certificate_is_wrong_still_counts_as_the_target_of_a_redirect() {
    let text = "[[listen]]\naddress = ':80'\nredirect = 'https'\n[[listen]]\naddress = ':443'\ntls = { certificate = 'missing' }\n[[site]]\nroot = 'a'";
    let shown = read(text).expect_err("a mistake").to_string();
    assert!(shown.contains("certificate") && !shown.contains("redirect"), "{shown}");
}
