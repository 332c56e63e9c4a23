//! What to write instead of a key that does not exist.
//!
//! Three answers, the first that fits: the section in which a key of that name does exist, a key of the same section that
//! looks like it, the keys that the section has.

use std::fmt::Display;

use super::keys::{Kind, ROOT, Section};

/// Two words at least so much alike (Jaro-Winkler, 0 to 1) are taken for one word and its slip.
const ALIKE: f64 = 0.8;

/// The message about a key that a section does not have.
pub(crate) fn unknown_key(name: &str, section: &Section) -> String {
    let place = match section.title {
        "" => String::new(),
        title => format!(" in {title}"),
    };
    let mend = if let Some(home) = home(name, &ROOT) {
        format!("it belongs {home}")
    } else if let Some(near) = nearest(name, section) {
        format!("did you mean \"{near}\"?")
    } else {
        let names: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
        format!("what may stand there: {}", names.join(", "))
    };
    format!("unknown key \"{}\"{place}; {mend}", name.escape_debug())
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

/// The key most like `name`: as a whole, in its last word (`timout` is like `reply_timeout`) or as a word of it (`max` of
/// `max_processes`). Of equals the first.
fn nearest(name: &str, section: &Section) -> Option<&'static str> {
    let name = name.to_lowercase().replace('-', "_");
    let likeness = |known: &'static str| {
        let whole = strsim::jaro_winkler(&name, known);
        let last = known.rsplit('_').next().unwrap_or(known);
        let of_part = if name.split('_').any(|word| word == known) {
            1.0
        } else {
            strsim::jaro_winkler(&name, last)
        };
        // A hair less than the same likeness of the whole name.
        whole.max(of_part - 0.01)
    };
    let mut best: Option<(&str, f64)> = None;
    for key in section.keys {
        let like = likeness(key.name);
        if like >= best.map_or(ALIKE, |(_, most)| most + f64::EPSILON) {
            best = Some((key.name, like));
        }
    }
    best.map(|(known, _)| known)
}

/// Where a key of this very name exists: `in [limits]`.
fn home(name: &str, section: &'static Section) -> Option<String> {
    if section.keys.iter().any(|key| key.name == name) {
        return Some(match section.title {
            "" => "at the top of the file, above the first section".to_owned(),
            title => format!("in {title}"),
        });
    }
    section.keys.iter().find_map(|key| match key.kind {
        Kind::Table(below) | Kind::Tables(below) => home(name, below),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The section with a title.
    fn section(title: &str) -> &'static Section {
        fn seek(title: &str, section: &'static Section) -> Option<&'static Section> {
            if section.title == title {
                return Some(section);
            }
            section.keys.iter().find_map(|key| match key.kind {
                Kind::Table(below) | Kind::Tables(below) => seek(title, below),
                _ => None,
            })
        }
        seek(title, &ROOT).expect("a section of the table")
    }

    #[test]
    fn a_slip_is_answered_with_the_key_that_was_meant() {
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
        ];
        for (name, title, meant) in cases {
            assert_eq!(nearest(name, section(title)), Some(meant), "{name}");
        }
    }

    #[test]
    fn a_key_of_another_section_is_sent_home() {
        let told = unknown_key("idle", section("[[site.route]]"));
        assert_eq!(
            told,
            "unknown key \"idle\" in [[site.route]]; it belongs in [[site.route]].script"
        );
    }

    #[test]
    fn a_key_like_nothing_is_answered_with_what_there_is() {
        assert_eq!(
            unknown_key("colour", section("[[listen]]")),
            "unknown key \"colour\" in [[listen]]; what may stand there: address, mode, proxy_protocol, tls, http2, redirect"
        );
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(&[301, 302, 303]), "301, 302 or 303");
        assert_eq!(alternatives(&["a"]), "a");
    }
}
