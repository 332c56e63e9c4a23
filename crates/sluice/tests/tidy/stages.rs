//! Stages: within the server a stage imports only itself and later ones, in the order in which a request passes them.
//!
//! Modules beside the path (exchange, fault, limits …) serve every stage and import none, but for the exceptions below.

use super::source::{Source, Token};

/// Where the server's source lies.
pub(crate) const SERVER: &str = "crates/sluice-server/src/";

/// The folders of the stages in the order of a request.
const STAGES: [&str; 5] = ["accept", "dispatch", "handler", "script", "write"];

/// What carries the stages: the server starts them, a worker holds what their tasks share.
const CARRIERS: [&str; 2] = ["server", "worker"];

/// Who imports a stage that it otherwise might not: a module or a whole stage, the stage imported, the reason.
const ALLOWED: [(&str, &str, &str); 1] = [(
    "exchange",
    "write",
    "an exchange writes its line of the log itself when it is dropped, so that none is forgotten",
)];

/// Checks the imports of the server's files, and that no exception has outlived its cause.
pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    check_with(sources, &ALLOWED)
}

fn check_with(sources: &[Source], allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut used = vec![false; allowed.len()];
    for source in sources {
        let module = module(&source.path);
        for (target, line) in imports(source, &module) {
            let Some(to) = STAGES.iter().position(|stage| *stage == target) else {
                continue;
            };
            let from = STAGES.iter().position(|stage| module.first() == Some(stage));
            let is_carrier = module.first().is_some_and(|first| CARRIERS.contains(first));
            if from.is_some_and(|from| from <= to) || module.is_empty() || is_carrier {
                continue;
            }
            let name = module.join("::");
            let exception = allowed
                .iter()
                .position(|(who, what, _)| is_or_holds(who, &name) && *what == target);
            if let Some(exception) = exception {
                used[exception] = true;
                continue;
            }
            let rule = match from {
                Some(_) => format!("a stage imports only later ones ({})", STAGES.join(" → ")),
                None => "a module beside the path imports no stage".to_owned(),
            };
            findings.push(format!(
                "{}:{line}: {name} imports {target}, but {rule}: move what both need beside the path, or add an exception with its reason to ALLOWED in {}",
                source.path,
                file!()
            ));
        }
    }
    for ((who, what, _), _) in allowed.iter().zip(used).filter(|(_, used)| !used) {
        findings.push(format!(
            "{}:1: {who} does not import {what} any more: remove it from ALLOWED",
            file!()
        ));
    }
    findings
}

/// Whether `who` is the module or the stage that holds it.
fn is_or_holds(who: &str, module: &str) -> bool {
    module
        .strip_prefix(who)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The module that a file is: `dispatch/site.rs` is `dispatch::site`; the crate itself is empty.
fn module(path: &str) -> Vec<&str> {
    let inner = path.strip_prefix(SERVER).unwrap_or(path);
    let parts = inner.strip_suffix(".rs").unwrap_or(inner).split('/');
    parts.filter(|part| !["lib", "mod"].contains(part)).collect()
}

/// The modules at the top of the crate that a file names: in `crate::a`, `crate::{a, b::c}` and `super::…` that leads there.
fn imports<'a>(source: &'a Source, module: &[&'a str]) -> Vec<(&'a str, usize)> {
    let tokens = source.tokens();
    let mut found = Vec::new();
    let mut inline = 0;
    for (index, token) in tokens.iter().enumerate() {
        inline = inline_depth(&source.code, token, inline, &tokens[index + 1..]);
        let is_inner = index > 0 && tokens[index - 1].text == ":";
        match token.text {
            "crate" => found.extend(named_after(&tokens[index + 1..])),
            "super" if !is_inner => {
                let climbs = 1 + tokens[index + 1..].chunks(3).take_while(|step| is_super(step)).count();
                let after = &tokens[(index + 1 + 3 * (climbs - 1)).min(tokens.len())..];
                // Fewer climbs stay inside a module of the file or of its folder.
                if module.len() + inline == climbs {
                    found.extend(named_after(after));
                }
            }
            _ => {}
        }
    }
    found
}

/// How many modules are open at a token; rustfmt leaves `mod x {` and its `}` in the first column.
fn inline_depth(code: &str, token: &Token<'_>, depth: usize, after: &[Token<'_>]) -> usize {
    let first = token.offset == 0 || code.as_bytes()[token.offset - 1] == b'\n';
    let opens = after.get(1).is_some_and(|brace| brace.text == "{");
    match token.text {
        "mod" if first && opens => 1,
        "}" if first => 0,
        _ => depth,
    }
}

fn is_super(step: &[Token<'_>]) -> bool {
    matches!(step, [one, two, name] if one.text == ":" && two.text == ":" && name.text == "super")
}

/// The first names behind `::`, one or a group in braces.
fn named_after<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, usize)> {
    let [one, two, rest @ ..] = tokens else {
        return Vec::new();
    };
    if one.text != ":" || two.text != ":" {
        return Vec::new();
    }
    match rest.first() {
        Some(brace) if brace.text == "{" => {
            let (mut depth, mut starts, mut names) = (0, false, Vec::new());
            for token in rest {
                match token.text {
                    "{" => (depth, starts) = (depth + 1, depth == 0),
                    "}" => depth -= 1,
                    "," => starts = depth == 1,
                    name if starts => {
                        names.push((name, token.line));
                        starts = false;
                    }
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
            names
        }
        Some(name) => vec![(name.text, name.line)],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check_with(&[sample(&format!("{SERVER}{path}"), text)], &[]).len()
    }

    #[test]
    fn a_stage_that_imports_an_earlier_one_is_found_in_every_form() {
        for text in [
            "use crate::accept::serve;",
            "use crate::{limits::Limits, accept};",
            "use crate::{\n    fault::{self, Fault},\n    dispatch::{site, route},\n};",
            "fn a() -> crate::dispatch::Site {}",
            "use super::super::accept::serve;",
            "mod tests {\n    use super::super::super::dispatch::site;\n}",
        ] {
            assert_eq!(findings("write/head.rs", text), 1, "{text}");
        }
        assert_eq!(findings("script/mod.rs", "use super::handler::file;"), 1);
    }

    #[test]
    fn a_stage_may_import_itself_later_ones_and_what_is_beside_the_path() {
        for text in [
            "use crate::handler::redirect;",
            "use crate::{limits::Limits, script::pool, write};",
            "use super::script;",
            "use super::super::write::head;",
            "use crate::fault::{accept, dispatch};",
            "// crate::accept knows\nlet a = \"crate::accept\";",
            "mod tests {\n    use super::super::dispatch;\n}",
        ] {
            assert_eq!(findings("handler/file.rs", text), 0, "{text}");
        }
        assert_eq!(
            findings("lib.rs", "pub use crate::accept::serve;"),
            0,
            "the crate's face names everything"
        );
    }

    #[test]
    fn a_module_beside_the_path_imports_no_stage_without_an_exception() {
        let source = sample(
            "crates/sluice-server/src/exchange.rs",
            "use crate::limits;\nuse crate::accept::listener;",
        );
        let sources = [source];
        let told = check_with(&sources, &[]);
        assert!(
            told[0].starts_with("crates/sluice-server/src/exchange.rs:2: exchange imports accept, but"),
            "{told:?}"
        );
        assert!(check_with(&sources, &[("exchange", "accept", "a reason")]).is_empty());
        let stale = check_with(&sources, &[("exchange", "accept", ""), ("exchange", "write", "")]);
        assert!(
            stale[0].contains("exchange does not import write any more"),
            "{stale:?}"
        );
    }

    #[test]
    fn what_carries_the_stages_imports_any() {
        let source = sample("crates/sluice-server/src/worker.rs", "use crate::accept::listener;");
        assert!(check_with(&[source], &[]).is_empty());
    }
}
