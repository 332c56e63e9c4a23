//! Lines of WASD's configuration files: what to write instead.
//!
//! Not here: keys of other servers (`foreign`).

/// The words of WASD's mapping rules, and what to write instead.
static WASD_RULES: &[(&[&str], &str)] = &[
    (
        &["pass"],
        "[[site.route]], path = \"/x/*\", files = { directory = \"…\" }",
    ),
    (
        &["exec", "exec+", "uxec", "uxec+", "script", "script+"],
        "[[site.route]], path = \"/cgi-bin/*\", script = { directory = \"…\" }",
    ),
    (&["map"], "[[site.route]], path = \"/old/*\", rewrite = \"/new/$1\""),
    (
        &["redirect"],
        "[[site.route]], path = \"/old/*\", redirect = { to = \"/new/$1\" }",
    ),
    (
        &["fail"],
        "[[site.route]], path = \"/private/*\", refuse = { status = 403 }",
    ),
    (&["set"], "[[site.route]], path = \"/x/*\", and keys of the route"),
    (
        &["if", "elif", "unif", "ifif", "else", "endif"],
        "when = { … } in [[site.route]]",
    ),
];

/// The message about a line of WASD's mapping file.
pub(super) fn line(line: &str) -> Option<String> {
    if line.starts_with("[[") && line.ends_with("]]") && line.contains([':', '*']) {
        return Some(
            "this looks like a virtual service of WASD; Sluice reads TOML: write [[site]] and below it hosts = [\"example.org\"]".into(),
        );
    }
    let mut words = line.split_whitespace();
    let first = words.next()?.to_lowercase();
    let (_, hint) = WASD_RULES.iter().find(|(names, _)| names.contains(&first.as_str()))?;
    let is_rule = match words.next() {
        Some(second) => second.starts_with(['/', '*', '(']),
        None => matches!(first.as_str(), "else" | "endif"),
    };
    is_rule.then(|| {
        format!("this looks like a rule of WASD; Sluice reads TOML: write {hint} (docs/guides/migrating-from-wasd.md)")
    })
}
