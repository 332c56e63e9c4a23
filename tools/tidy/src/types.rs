//! Names of types: no two `pub` or `pub(crate)` types of one crate have the same name.

use std::collections::BTreeMap;

use crate::source::{Source, Token};

/// The keywords before the name of a type.
const KINDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// Finds types with the name of another one in the crate whose sources lie below `root`.
pub(crate) fn check(root: &str, sources: &[Source]) -> Vec<String> {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    let mut findings = Vec::new();
    let of_crate = sources
        .iter()
        .filter(|source| source.path.starts_with(root) && !source.is_test());
    for source in of_crate {
        for token in types(source) {
            let place = format!("{}:{}", source.path, token.line);
            if let Some(other) = first.get(token.text) {
                findings.push(format!(
                    "{place}: {} is also the name of the type at {other}: give each its own",
                    token.text
                ));
            } else {
                first.insert(token.text.to_owned(), place);
            }
        }
    }
    findings
}

/// The names of the types that a file makes public, or public in its crate.
fn types(source: &Source) -> Vec<Token<'_>> {
    let (tokens, last) = (source.tokens(), source.first_test_line());
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.text != "pub" || token.line >= last {
            continue;
        }
        let rest = &tokens[at + 1..];
        let is = |texts: &[&str]| {
            rest.iter()
                .map(|token| token.text)
                .take(texts.len())
                .eq(texts.iter().copied())
        };
        let rest = if is(&["(", "crate", ")"]) { &rest[3..] } else { rest };
        if let [kind, name, ..] = rest
            && KINDS.contains(&kind.text)
        {
            found.push(*name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    #[test]
    fn two_types_of_one_name_are_found() {
        let sources = [
            sample("crates/x/src/a.rs", "pub(crate) struct Reply;\nstruct Own;\n"),
            sample(
                "crates/x/src/b.rs",
                "\npub enum Reply {}\npub(super) struct Own;\npub fn f() {}",
            ),
            sample("crates/y/src/a.rs", "pub trait Reply {}"),
            sample(
                "crates/y/src/b.rs",
                "#[cfg(test)]\nmod tests {\n    pub struct Reply;\n}\n",
            ),
        ];
        assert_eq!(
            check("crates/x/src/", &sources),
            ["crates/x/src/b.rs:2: Reply is also the name of the type at crates/x/src/a.rs:1: give each its own"]
        );
        assert!(check("crates/y/src/", &sources).is_empty());
    }
}
