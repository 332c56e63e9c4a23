//! The message about an unknown key: what to write instead.
//!
//! One of five answers, the first that applies: what a key of another server is called in this section (`foreign`); the section that has a key of that name;
//! what a key of another server is called anywhere; a similar key of the same section; the list of the section's keys.

use std::fmt::Display;

use super::description::Described;
use super::foreign;

/// The similarity (Jaro-Winkler, 0 to 1) from which an unknown key counts as a misspelling of a known one.
const SIMILAR: f64 = 0.8;

/// The message about a key that a section does not have. `root` is the top of the file.
pub(crate) fn unknown_key(name: &str, section: &dyn Described, root: &dyn Described) -> String {
    let place = match section.title() {
        "" => String::new(),
        title => format!(" in {title}"),
    };
    let hint = if name == "use" {
        "blocks are used by whole routes, sites and blocks: write use there; the tables of a block are merged with theirs".to_owned()
    } else if let Some(hint) = foreign::key_in(section.title(), name) {
        hint.to_owned()
    } else if let Some(plural) = section
        .keys()
        .iter()
        .map(|key| key.name)
        .find(|key| key.strip_suffix('s') == Some(name))
    {
        format!("did you mean \"{plural}\"?")
    } else if let Some(home) = home(name, root) {
        home
    } else if let Some(hint) = foreign::key(name) {
        hint.to_owned()
    } else if let Some(similar) = most_similar(name, section) {
        format!("did you mean \"{similar}\"?")
    } else {
        let names: Vec<&str> = section.keys().iter().map(|key| key.name).collect();
        format!("possible keys: {}", names.join(", "))
    };
    format!("unknown key \"{}\"{place}; {hint}", name.escape_debug())
}

/// `a, b or c`.
pub(crate) fn alternatives<T: Display>(items: &[T]) -> String {
    let words: Vec<String> = items.iter().map(ToString::to_string).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The similarity of a key that is a word of the unknown one (`max` in `max_processes`). A key that differs from it by a letter or two as a
/// whole is closer: `allow_writes` means `allow_write`, which is for others than `allow`.
const IS_WORD: f64 = 0.95;

/// The key most similar to `name`: as a whole, in its last word (`timout` and `reply_timeout`), or equal to a word of `name`
/// (`max` in `max_processes`). Of equally similar keys the first.
fn most_similar(name: &str, section: &dyn Described) -> Option<&'static str> {
    let name = name.to_lowercase().replace('-', "_");
    let similarity = |known: &'static str| {
        let whole = strsim::jaro_winkler(&name, known);
        let last = known.rsplit('_').next().unwrap_or(known);
        let part = if name.split('_').any(|word| word == known) {
            IS_WORD
        } else {
            strsim::jaro_winkler(&name, last)
        };
        // Slightly less than the same similarity of the whole name.
        whole.max(part - 0.01)
    };
    let mut best: Option<(&str, f64)> = None;
    for key in section.keys() {
        let similar = similarity(key.name);
        if similar >= best.map_or(SIMILAR, |(_, most)| most + f64::EPSILON) {
            best = Some((key.name, similar));
        }
    }
    best.map(|(known, _)| known)
}

/// The name that was probably meant, of those that there are.
pub(crate) fn similar<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let rated = known.map(|known| (known, strsim::jaro_winkler(name, known)));
    let likely = rated.filter(|(_, similarity)| *similarity >= SIMILAR);
    likely
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(known, _)| known)
}

/// Where a key of exactly this name exists: `it belongs in [limits]`.
fn home(name: &str, section: &dyn Described) -> Option<String> {
    let keys = section.keys();
    let Some(found) = keys.iter().find(|key| key.name == name) else {
        return keys.iter().find_map(|key| home(name, key.below?));
    };
    Some(match (found.below.map(Described::title), section.title()) {
        (Some(own), _) if own.ends_with(']') => format!("it is a section of its own: write {own}"),
        (_, title) if title.starts_with('[') => format!("it belongs in {title}"),
        _ => "it belongs at the top of the file, above the first section".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::root::ROOT;
    use super::*;

    /// The section with a title.
    fn section(title: &str) -> &'static dyn Described {
        fn find(title: &str, section: &'static dyn Described) -> Option<&'static dyn Described> {
            if section.title() == title {
                return Some(section);
            }
            section.keys().iter().find_map(|key| find(title, key.below?))
        }
        find(title, &ROOT).expect("a section of the file")
    }

    #[test]
    fn a_misspelling_is_answered_with_the_similar_key() {
        let cases = [
            ("timout", "[[site.route]].script", "reply_timeout"),
            ("reply-timeout", "[[site.route]].script", "reply_timeout"),
            ("max_processes", "[[site.route]].script", "max"),
            ("dir", "[[site.route]].files", "directory"),
            ("adress", "[[listen]]", "address"),
            ("host", "[[site]]", "hosts"),
            ("Root", "[[site]]", "root"),
            ("sites", "", "site"),
            ("timeout", "[limits]", "head_timeout"),
            ("headers", "[limits]", "head_fields"),
            ("enviroment", "[[site.route]].script", "environment"),
            ("env", "[[site.route]].script", "environment"),
            ("allow_writes", "[[site.route]].access", "allow_write"),
            ("allowwrite", "[[site.route]].access", "allow_write"),
            ("remote_user", "[[site.route]].access", "remote_user_from"),
            ("certificate_users", "[[site.route]].access", "certificate_user"),
            ("users_file", "[[site.route]].access", "users"),
            ("group_file", "[[site.route]].access", "groups"),
            ("refused", "[[site.route]].access", "refused_for"),
            ("agent_parameter", "[[site.route]].access", "agent_parameters"),
        ];
        for (name, title, meant) in cases {
            assert_eq!(most_similar(name, section(title)), Some(meant), "{name}");
        }
    }

    #[test]
    fn a_key_of_another_section_is_answered_with_that_section() {
        let message = unknown_key("idle", section("[[site.route]]"), &ROOT);
        assert_eq!(
            message,
            "unknown key \"idle\" in [[site.route]]; it belongs in [[site.route]].script"
        );
    }

    #[test]
    fn a_section_in_the_wrong_place_is_answered_with_its_header() {
        assert_eq!(
            unknown_key("route", &ROOT, &ROOT),
            "unknown key \"route\"; it is a section of its own: write [[site.route]]"
        );
    }

    #[test]
    fn a_key_similar_to_none_is_answered_with_the_list_of_keys() {
        assert_eq!(
            unknown_key("colour", section("[[listen]]"), &ROOT),
            "unknown key \"colour\" in [[listen]]; possible keys: address, mode, proxy_protocol, tls, http2, redirect"
        );
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(&[301, 302, 303]), "301, 302 or 303");
        assert_eq!(alternatives(&["a"]), "a");
    }
}
