//! Words that have no place in names, comments and tests.

use super::source::{Source, Text, Token};

/// Words that say nothing about what they name, and what to do instead.
const EMPTY_WORDS: [&str; 4] = ["util", "utils", "common", "manager"];
/// Names of other people's crates that hold such a word.
const OTHERS_NAMES: [&str; 3] = ["hyper_util", "http_body_util", "CommonName"];
/// Marks of unfinished work.
const UNFINISHED: [&str; 3] = ["TODO", "FIXME", "XXX"];
/// The crates in which unsafe code lives; each of its blocks says why it is sound.
const UNSAFE_CRATES: [&str; 2] = ["crates/sluice-membuf/", "crates/sluice-launch/"];

/// Checks names and comments of a Rust file.
pub(crate) fn check(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let stem = source
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs");
    if let Some(word) = empty_word(stem) {
        findings.push(format!(
            "{}:1: \"{word}\" names nothing: name the file for what lives in it",
            source.path
        ));
    }
    let tokens = source.tokens();
    for (index, token) in tokens.iter().enumerate() {
        let after = tokens.get(index + 1).map_or("", |next| next.text);
        if let Some(message) = check_name(token, after) {
            findings.push(format!("{}:{}: {message}", source.path, token.line));
        }
    }
    findings.extend(check_unfinished(&source.path, &source.comments));
    findings
}

/// Checks a file in another language; its comments are not told from its code.
pub(crate) fn check_script(text: &Text) -> Vec<String> {
    check_unfinished(&text.path, &text.text)
}

/// Finds `unsafe` outside the crates that answer for it.
pub(crate) fn check_unsafe(source: &Source) -> Vec<String> {
    if UNSAFE_CRATES.iter().any(|home| source.path.starts_with(home)) {
        return Vec::new();
    }
    let tokens = source.tokens();
    let found = tokens.iter().filter(|token| token.text == "unsafe");
    let message = format!(
        "unsafe code lives in {} alone: move it there behind a safe function",
        UNSAFE_CRATES.join(" and ")
    );
    found
        .map(|token| format!("{}:{}: {message}", source.path, token.line))
        .collect()
}

/// Finds tests that sleep: they are slow when all is well and wrong when the machine is busy.
pub(crate) fn check_sleep(source: &Source) -> Vec<String> {
    let first = source.first_test_line();
    let tokens = source.tokens();
    let calls = tokens
        .windows(2)
        .filter(|pair| pair[0].text == "sleep" && pair[1].text == "(" && pair[0].line >= first);
    calls
        .map(|pair| {
            format!(
                "{}:{}: a test never sleeps: wait for the event, with a deadline",
                source.path, pair[0].line
            )
        })
        .collect()
}

fn check_name(token: &Token<'_>, after: &str) -> Option<String> {
    if token.text == "fn" && after.starts_with("get_") {
        let name = after.trim_start_matches("get_");
        return Some(format!(
            "fn {after}: a function that returns a thing is named for it: {name}"
        ));
    }
    if ["todo", "unimplemented"].contains(&token.text) && after == "!" {
        return Some(format!("{}!: finish it, or leave it out", token.text));
    }
    if OTHERS_NAMES.contains(&token.text) {
        return None;
    }
    empty_word(token.text).map(|word| format!("{}: \"{word}\" names nothing: say what it does", token.text))
}

/// The empty word in `file_util`, `FileUtil` or `util`, if any.
fn empty_word(name: &str) -> Option<&'static str> {
    let mut parted = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            parted.push('_');
        }
        parted.extend(letter.to_lowercase());
    }
    EMPTY_WORDS
        .into_iter()
        .find(|word| parted.split('_').any(|part| part == *word))
}

fn check_unfinished(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split(|letter: char| !letter.is_alphanumeric());
        if let Some(word) = words.find(|word| UNFINISHED.contains(word)) {
            findings.push(format!("{path}:{}: {word}: finish it, or leave it out", index + 1));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    #[test]
    fn banned_words_are_found_in_names_and_comments() {
        let cases = [
            (
                "fn get_name() {}",
                "a.rs:1: fn get_name: a function that returns a thing is named for it: name",
            ),
            (
                "\nstruct PoolManager;",
                "a.rs:2: PoolManager: \"manager\" names nothing: say what it does",
            ),
            (
                "mod file_util;",
                "a.rs:1: file_util: \"util\" names nothing: say what it does",
            ),
            ("fn a() { todo!() }", "a.rs:1: todo!: finish it, or leave it out"),
            ("// TODO: later", "a.rs:1: TODO: finish it, or leave it out"),
            ("/* a\n FIXME(b) */", "a.rs:2: FIXME: finish it, or leave it out"),
        ];
        for (text, told) in cases {
            assert_eq!(check(&sample("a.rs", text)), [told]);
        }
        assert_eq!(check(&sample("src/common.rs", "")).len(), 1, "the name of a file");
    }

    #[test]
    fn the_same_words_elsewhere_are_nobodys_business() {
        for text in [
            "use hyper_util::rt::TokioIo;",
            "// the common case",
            "let a = \"TODO: util\";",
            "map.get_mut(a); self.get(b);",
            "fn uncommon() {}",
        ] {
            assert_eq!(check(&sample("a.rs", text)), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn unsafe_outside_its_crates_is_found() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nfn a() { unsafe { b() } }";
        let told = check_unsafe(&sample("crates/sluice-server/src/a.rs", text));
        assert!(
            told.len() == 1 && told[0].starts_with("crates/sluice-server/src/a.rs:3: unsafe code lives in"),
            "{told:?}"
        );
        assert!(check_unsafe(&sample("crates/sluice-membuf/src/a.rs", text)).is_empty());
    }

    #[test]
    fn sleeping_tests_are_found_and_sleeping_code_is_not() {
        let text =
            "async fn a() { sleep(b).await }\n#[cfg(test)]\nmod tests {\n    fn c() { std::thread::sleep(d) }\n}\n";
        assert_eq!(
            check_sleep(&sample("crates/a/src/b.rs", text)),
            ["crates/a/src/b.rs:4: a test never sleeps: wait for the event, with a deadline"]
        );
        assert_eq!(check_sleep(&sample("crates/a/tests/b.rs", text)).len(), 2);
        assert_eq!(
            check_sleep(&sample("crates/a/tests/b.rs", "ring.prepare_sleep(); // sleep(1)")).len(),
            0
        );
    }
}
