//! The decision points: only `serve/decide` matches on the kind of a route, and few files name a mode of scripts.
//!
//! `dispatch/route.rs` defines `RouteKind`, makes it from settings and has its methods. Every other file of the server uses those
//! methods, so that authorization has one place to check an answer.

use crate::source::Source;

/// The beginnings of the paths of files that may name the variants of `RouteKind`: the definition, and the decision with its parts.
const HOMES: [&str; 2] = ["dispatch/route.rs", "serve/decide"];

/// The files that may name the variants of `Mode`: its definition, the key that sets it, the two functions that run scripts, and the labels of
/// the statistics. All others ask its methods, so that a mode is added in a few places.
const HOMES_OF_MODES: [&str; 4] = [
    "sluice-settings/src/settings/script.rs",
    "sluice-config/src/script.rs",
    "sluice-script/src/exchange/serve.rs",
    "serve/decide.rs",
];

/// Finds the variants of `Mode` outside these files; tests may name them.
pub(crate) fn check_modes(source: &Source) -> Vec<String> {
    if source.path.contains("/tests/") || HOMES_OF_MODES.iter().any(|home| source.path.ends_with(home)) {
        return Vec::new();
    }
    let last = source.first_test_line();
    let tokens = source.tokens();
    tokens
        .windows(3)
        .filter(|three| three[0].text == "Mode" && three[1].text == ":" && three[2].text == ":" && three[0].line < last)
        .map(|three| {
            format!(
                "{}:{}: names a mode of scripts: use a method of Mode, or a constructor of ScriptSettings",
                source.path, three[0].line
            )
        })
        .collect()
}

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
    fn a_mode_is_named_only_where_it_is_defined_set_and_run() {
        let text = "fn f(mode: Mode) {\n  mode == Mode::Rte || FileMode::empty() == BodyMode::Stream;\n}";
        assert_eq!(
            check_modes(&sample("crates/sluice-server/src/serve/explain.rs", text)),
            [
                "crates/sluice-server/src/serve/explain.rs:2: names a mode of scripts: use a method of Mode, or a constructor of ScriptSettings"
            ]
        );
        for home in HOMES_OF_MODES {
            assert_eq!(
                check_modes(&sample(&format!("crates/{home}"), text)),
                Vec::<String>::new()
            );
        }
        let test = sample(
            "crates/a/src/b.rs",
            "#[cfg(test)]\nmod tests {\n    const A: Mode = Mode::Cgi;\n}",
        );
        assert_eq!(check_modes(&test), Vec::<String>::new());
    }

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
