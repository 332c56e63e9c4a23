//! The decision point: only `serve/decide` matches on the kind of a route.
//!
//! `dispatch/route.rs` defines `RouteKind`, makes it from settings and has its methods. Every other file of the server uses those
//! methods, so that authorization has one place to check an answer.

use crate::source::Source;

/// The beginnings of the paths of files that may name the variants of `RouteKind`: the definition, and the decision with its parts.
const HOMES: [&str; 2] = ["dispatch/route.rs", "serve/decide"];

/// Finds the variants of `RouteKind` outside these files.
pub(crate) fn check(source: &Source) -> Vec<String> {
    if HOMES.iter().any(|home| source.path.contains(&format!("/src/{home}"))) {
        return Vec::new();
    }
    let tokens = source.tokens();
    tokens
        .windows(3)
        .filter(|three| three[0].text == "RouteKind" && three[1].text == ":" && three[2].text == ":")
        .map(|three| {
            format!(
                "{}:{}: only serve/decide matches on the kind of a route: use a method of RouteKind",
                source.path, three[0].line
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    #[test]
    fn a_match_on_the_kind_of_a_route_is_found_outside_of_the_decision() {
        let text = "fn f(kind: &RouteKind) {\n  // RouteKind::Files\n  matches!(kind, RouteKind::Files(_));\n}";
        assert_eq!(
            check(&sample("crates/sluice-server/src/serve/explain.rs", text)),
            [
                "crates/sluice-server/src/serve/explain.rs:3: only serve/decide matches on the kind of a route: use a method of RouteKind"
            ]
        );
        for home in ["dispatch/route.rs", "serve/decide.rs", "serve/decide/listing.rs"] {
            let path = format!("crates/sluice-server/src/{home}");
            assert_eq!(check(&sample(&path, text)), Vec::<String>::new());
        }
        let imported = sample("crates/a/src/b.rs", "use crate::route::RouteKind::{Files, Script};");
        assert_eq!(check(&imported).len(), 1);
        let used = sample("crates/a/src/b.rs", "use crate::route::RouteKind;\nkind.directory()");
        assert_eq!(check(&used), Vec::<String>::new());
    }
}
