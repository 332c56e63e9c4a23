//! Keys and syntax of other servers in a configuration: what to write here instead, or that Sluice has no such thing.
//!
//! The answers are in `foreign.md`.

use std::sync::LazyLock;

use super::texts::{Texts, parse};

/// Answers by the section where a name is written, and the names, separated by blanks.
static HINTS: LazyLock<Texts> = LazyLock::new(|| parse(include_str!("foreign.md")));

/// The section of names that have one answer, whichever section they are in.
const ANYWHERE: &str = "any section";

/// The section of the words of WASD's mapping rules.
const RULES: &str = "rules of WASD";

/// The answer to a name, in lower case, below a heading.
fn hint(title: &str, name: &str) -> Option<&'static str> {
    let is_it = |known: &str| match known.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == known,
    };
    let mut here = HINTS.iter().filter(|((own, _), _)| *own == title);
    let found = here.find(|((_, names), _)| names.split_whitespace().any(is_it));
    found.map(|(_, text)| text.text.as_str())
}

/// The hint for a key of another server, whichever section it is in. `None` if the name is unknown.
pub(super) fn key(name: &str) -> Option<&'static str> {
    hint(ANYWHERE, &simplified(name))
}

/// The hint for a key in the section with this title, where the name alone would give another one.
pub(super) fn key_in(title: &str, name: &str) -> Option<&'static str> {
    hint(title, &simplified(name))
}

/// The hint for several tables with a name that may be used only once.
pub(super) fn tables(name: &str) -> Option<&'static str> {
    (name == "server").then(|| key_in("[server]", "hosts"))?
}

/// A name in lower case and without the letters in which servers differ.
fn simplified(name: &str) -> String {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-' | '$' | '.'));
    letters.flat_map(char::to_lowercase).collect()
}

/// The message about a line that is not TOML but what other servers read. `None` if it is not that either.
pub(super) fn syntax(line: &str) -> Option<String> {
    let line = line.trim();
    let server = if line.starts_with('<') && line.ends_with('>') {
        "Apache"
    } else if is_nginx(line) {
        "nginx"
    } else {
        return wasd_line(line).or_else(|| directive(line));
    };
    Some(format!(
        "this looks like a configuration of {server}; Sluice reads TOML: write [[site]], root = \"htdocs\" and [[site.route]]"
    ))
}

fn is_nginx(line: &str) -> bool {
    match line.split_once('=') {
        None => line.ends_with(['{', ';']),
        // `location = /x {`, `if ($a = b) {`
        Some((before, _)) => line.ends_with('{') && (before.starts_with("location ") || before.starts_with("if ")),
    }
}

/// The message about a line such as `DocumentRoot /var/www`.
fn directive(line: &str) -> Option<String> {
    let (name, value) = line.split_once(char::is_whitespace)?;
    let hint = key(name)?;
    (!value.trim_start().starts_with('=')).then(|| format!("this is not TOML, which is written name = value; {hint}"))
}

/// The message about a line of one of WASD's files: a service, a directive with its value, or a rule.
fn wasd_line(line: &str) -> Option<String> {
    if line.starts_with("[[") && line.ends_with("]]") && line.contains([':', '*']) {
        return Some(
            "this looks like a virtual service of WASD; Sluice reads TOML: write [[site]] and below it hosts = [\"example.org\"]".into(),
        );
    }
    if let Some((name, value)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let has_value = !value.trim().is_empty() && !value.trim_start().starts_with('#');
        let hint = key(name).filter(|_| has_value)?;
        return Some(format!(
            "this looks like a directive of WASD; Sluice reads TOML, name = value: {hint}"
        ));
    }
    let mut words = line.split_whitespace();
    let first = words.next()?.to_lowercase();
    let hint = hint(RULES, &first)?;
    let is_rule = match words.next() {
        Some(second) => second.starts_with(['/', '*', '(']),
        None => matches!(first.as_str(), "else" | "endif"),
    };
    is_rule.then(|| {
        format!("this looks like a rule of WASD; Sluice reads TOML: write {hint} (docs/guides/migrating-from-wasd.md)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_servers_are_known_however_they_are_written() {
        for name in ["proxy_pass", "ProxyPass", "proxy", "reverse_proxy"] {
            assert!(key(name).is_some_and(|hint| hint.contains("is no proxy")), "{name}");
        }
        for name in ["fastcgi", "fastcgi_pass", "fastcgi.server", "php_fastcgi"] {
            assert!(
                key(name).is_some_and(|hint| hint.contains("speaks no FastCGI")),
                "{name}"
            );
        }
        assert!(key("SSLCertificateFile").is_some_and(|hint| hint.contains("certificate = ")));
        assert_eq!(key("colour"), None);
    }

    #[test]
    fn no_name_is_listed_twice_or_could_never_be_found() {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for (title, list) in HINTS.keys() {
            names.extend(list.split_whitespace().map(|name| (*title, name)));
        }
        for (title, name) in &names {
            let plain = name.trim_end_matches('*');
            assert!(*title == RULES || simplified(plain) == plain, "{name}");
            assert!(hint(title, plain).is_some(), "{name}");
        }
        let listed = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), listed);
    }

    #[test]
    fn lines_of_other_servers_are_recognized() {
        assert!(syntax("server {").is_some_and(|hint| hint.contains("nginx")));
        assert!(syntax("  listen 80;").is_some_and(|hint| hint.contains("nginx")));
        assert!(syntax("<VirtualHost *:80>").is_some_and(|hint| hint.contains("Apache")));
        assert!(syntax("location = /x {").is_some_and(|hint| hint.contains("nginx")));
        for rule in [
            "pass /x/* /y/*",
            "EXEC+ /cgi-bin/* /cgi/*",
            "set * cache=none",
            "if (host:a)",
            "endif",
        ] {
            assert!(syntax(rule).is_some_and(|hint| hint.contains("rule of WASD")), "{rule}");
        }
        assert!(syntax("[[*:80]]").is_some_and(|hint| hint.contains("virtual service of WASD")));
        assert!(
            syntax("DocumentRoot \"/var/www\"").is_some_and(|hint| hint.ends_with("root = \"htdocs\" in [[site]]"))
        );
        assert_eq!(syntax("user = www-data"), None);
        assert_eq!(syntax("root = htdocs"), None);
        assert_eq!(syntax("script = {"), None);
    }
}
