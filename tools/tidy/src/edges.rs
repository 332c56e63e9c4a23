//! Edges between the packages of the workspace: a package that is declared as a dependency is named by a source.

use std::collections::BTreeSet;

use crate::floors;
use crate::source::{Source, Text};

/// Finds dependencies on crates of the workspace that no source of the package names.
pub(crate) fn check(manifest: &Text, sources: &[Source]) -> Vec<String> {
    let directory = manifest.path.trim_end_matches("Cargo.toml");
    if directory.is_empty() {
        return Vec::new();
    }
    let own = sources.iter().filter(|source| source.path.starts_with(directory));
    let names: BTreeSet<&str> = own.flat_map(Source::tokens).map(|token| token.text).collect();
    let dependencies = floors::dependencies(manifest).into_iter();
    let unused = dependencies
        .filter(|(name, _)| name.starts_with("sluice-") && !names.contains(name.replace('-', "_").as_str()));
    unused
        .map(|(name, line)| {
            format!(
                "{}:{line}: no source of this package names {name}: remove the dependency",
                manifest.path
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let manifest = Text {
            path: "crates/x/Cargo.toml".into(),
            text: "[dependencies]\nsluice-http.workspace = true\nsluice-net.workspace = true\nbytes = 1\n".into(),
        };
        let sources = [
            sample("crates/x/src/lib.rs", "// sluice_net\nuse sluice_http::Method;"),
            sample("crates/y/src/lib.rs", "use sluice_net::Front;"),
        ];
        assert_eq!(
            check(&manifest, &sources),
            ["crates/x/Cargo.toml:3: no source of this package names sluice-net: remove the dependency"]
        );
    }
}
