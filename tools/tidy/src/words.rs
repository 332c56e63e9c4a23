//! Words that have no scope in names, comments, messages and docs, and other rules about single words.
//!
//! Here: where words are looked for in Rust, in other languages and in docs; `unsafe`, `sleep`, unfinished work.
//! Not here: the words, which are in the glossary (`glossary`), and telling code from comments (`source`).

use crate::glossary::{Entry, Glossary, Scope};
use crate::source::{Source, Text, Token};

/// Marks of unfinished work.
const UNFINISHED: [&str; 3] = ["TODO", "FIXME", "XXX"];
/// The crates in which unsafe code lives; each of its blocks says why it is sound.
const UNSAFE_CRATES: [&str; 2] = ["crates/sluice-membuf/", "crates/sluice-launch/"];
/// The keywords before the name of an item.
const DEFINING: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "mod", "const"];
/// Words that the longest phrase of the glossary may have.
const PHRASE_WORDS_MAX: usize = 6;

/// Finds words of the glossary in the names, comments and quoted text of a Rust file. Quoted text in tests is not searched:
/// it is requests and expected bytes.
pub(crate) fn check_glossary(source: &Source, glossary: &Glossary) -> Vec<String> {
    let mut report = Report::new(&source.path, glossary);
    let stem = source.path.rsplit('/').next().unwrap_or_default();
    report.name(1, stem.trim_end_matches(".rs"), &[Scope::Part, Scope::Definition]);
    let mut before = "";
    for token in source.tokens() {
        if DEFINING.contains(&before) {
            report.name(token.line, token.text, &[Scope::Part, Scope::Name, Scope::Definition]);
        } else {
            report.name(token.line, token.text, &[Scope::Part, Scope::Name]);
        }
        before = token.text;
    }
    let quoted: Vec<&str> = source.quoted.lines().take(source.first_test_line() - 1).collect();
    for text in [source.comments.as_str(), &quoted.join("\n")] {
        let (prose, code) = without_code_spans(text);
        report.prose(&prose);
        report.names(&code, |name| has_parts(name) || name.starts_with(char::is_uppercase));
    }
    report.findings
}

/// Finds words of the glossary in a page of the docs, or in a file of another language. In a page names are looked for in
/// code spans; in another language comments and code are not distinguished.
pub(crate) fn check_text(text: &Text, glossary: &Glossary) -> Vec<String> {
    let mut report = Report::new(&text.path, glossary);
    if text.path.ends_with(".md") {
        let (prose, code) = without_code_spans(&text.text);
        report.prose(&prose);
        report.names(&code, |name| has_parts(name) || name.starts_with(char::is_uppercase));
    } else {
        report.prose(&text.text);
        report.names(&text.text, has_parts);
    }
    report.findings
}

/// The findings in one file.
struct Report<'a> {
    path: &'a str,
    glossary: &'a Glossary,
    findings: Vec<String>,
}

impl<'a> Report<'a> {
    fn new(path: &'a str, glossary: &'a Glossary) -> Report<'a> {
        Report { path, glossary, findings: Vec::new() }
    }

    fn name(&mut self, line: usize, name: &str, scopes: &[Scope]) {
        for entry in self.glossary.in_name(name, scopes) {
            self.add(line, entry, name);
        }
    }

    /// Looks up every word of a text that can only be an identifier.
    fn names(&mut self, text: &str, is_name: impl Fn(&str) -> bool) {
        for (index, line) in text.lines().enumerate() {
            let names = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            for name in names.filter(|name| is_name(name)) {
                self.name(index + 1, name, &[Scope::Part, Scope::Name]);
            }
        }
    }

    /// Looks up every word of a text; a phrase may go over the end of a line.
    fn prose(&mut self, text: &str) {
        let lower = text.to_lowercase();
        let words: Vec<(usize, &str)> = lower
            .lines()
            .enumerate()
            .flat_map(|(index, line)| {
                let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                words.filter(|word| !word.is_empty()).map(move |word| (index + 1, word))
            })
            .collect();
        for (at, (line, word)) in words.iter().enumerate() {
            let end = words.len().min(at + PHRASE_WORDS_MAX);
            let next: Vec<&str> = words[at..end].iter().map(|(_, word)| *word).collect();
            if let Some(entry) = self.glossary.in_words(&next) {
                self.add(*line, entry, word);
            }
        }
    }

    fn add(&mut self, line: usize, entry: &Entry, name: &str) {
        if self.glossary.allows(entry, self.path, name) {
            return;
        }
        let shown = if entry.word == name || entry.word.contains(' ') {
            entry.word.clone()
        } else {
            format!("{name} ({})", entry.word)
        };
        self.findings
            .push(format!("{}:{line}: {shown} -> {}", self.path, entry.replacement));
    }
}

/// Whether a name consists of several parts, so that it is no word of prose.
fn has_parts(name: &str) -> bool {
    name.contains('_') || name.chars().skip(1).any(char::is_uppercase)
}

/// A text without its code, and its code without the text: what stands in backquotes, and in blocks fenced by three.
/// Lines stay where they are.
fn without_code_spans(text: &str) -> (String, String) {
    let (mut prose, mut code, mut fenced) = (String::new(), String::new(), false);
    for line in text.lines() {
        if line.trim_start_matches(['/', '!', ' ']).starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            code.push_str(line);
        } else {
            for (index, part) in line.split('`').enumerate() {
                let side = if index % 2 == 0 { &mut prose } else { &mut code };
                side.push_str(part);
                side.push(' ');
            }
        }
        prose.push('\n');
        code.push('\n');
    }
    (prose, code)
}

/// Finds unfinished work in a Rust file, and functions whose names begin with `get_`.
pub(crate) fn check(source: &Source) -> Vec<String> {
    let tokens = source.tokens();
    let mut findings = Vec::new();
    for pair in tokens.windows(2) {
        if let Some(message) = check_pair(&pair[0], pair[1].text) {
            findings.push(format!("{}:{}: {message}", source.path, pair[0].line));
        }
    }
    findings.extend(check_unfinished(&source.path, &source.comments));
    findings
}

/// Finds unfinished work in a file of another language; its comments and its code are not distinguished.
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
        "unsafe code lives only in {}: move it there behind a safe function",
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

fn check_pair(token: &Token<'_>, after: &str) -> Option<String> {
    if token.text == "fn" && after.starts_with("get_") {
        let name = after.trim_start_matches("get_");
        return Some(format!(
            "fn {after}: a function that returns a thing is named for it: {name}"
        ));
    }
    let is_unfinished = ["todo", "unimplemented"].contains(&token.text) && after == "!";
    is_unfinished.then(|| format!("{}!: finish it, or leave it out", token.text))
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
    use super::*;
    use crate::glossary;
    use crate::source::sample;

    const ROWS: &str = "| `box`, `boxes` | crate | part, prose |\n| `Lid` | Cover | name |\n| `open` | start | definition |\n| `look at` | check | prose |\n\n## Where a word stays\n\n| `box` | `old.md` | a quotation |\n| `box` | `BoxBody` | a library's |\n";

    #[test]
    fn words_of_the_glossary_are_found_in_names_comments_and_messages() {
        for (text, expected) in [
            ("struct PillBox;", "a.rs:1: PillBox (box) -> crate"),
            ("\nlet box_bytes = 1;", "a.rs:2: box_bytes (box) -> crate"),
            ("let a = Lid;", "a.rs:1: Lid -> Cover"),
            ("mod open;", "a.rs:1: open -> start"),
            ("// Look\n// at it.", "a.rs:1: look at -> check"),
            ("/// The `box_fd`.", "a.rs:1: box_fd (box) -> crate"),
            ("error(\"no such box\");", "a.rs:1: box -> crate"),
        ] {
            assert_eq!(
                check_glossary(&sample("a.rs", text), &glossary::sample(ROWS)),
                [expected],
                "{text}"
            );
        }
        assert_eq!(
            check_glossary(&sample("src/boxes.rs", ""), &glossary::sample(ROWS)).len(),
            1
        );
    }

    #[test]
    fn other_words_exceptions_and_bytes_of_tests_are_not_found() {
        for text in [
            "let inbox = unboxed;",
            "file.open(a); // open the lid",
            "use http_body_util::BoxBody;",
            "// It looks, at last.",
            "// `look at` is code",
            "#[cfg(test)]\nmod tests {\n    let a = \"GET /box\";\n}",
        ] {
            let found = check_glossary(&sample("a.rs", text), &glossary::sample(ROWS));
            assert_eq!(found, Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn words_of_the_glossary_are_found_in_docs_and_scripts() {
        let found = |path: &str, text: &str| {
            let text = Text { path: path.into(), text: text.into() };
            check_text(&text, &glossary::sample(ROWS))
        };
        assert_eq!(found("a.md", "A\nBox and `Lid`,\n```sh\ntwo_boxes\n```\n").len(), 3);
        assert_eq!(found("old.md", "a box").len(), 0);
        assert_eq!(found("a.c", "int box_count; /* a box */").len(), 2);
        assert_eq!(found("a.toml", "lid = 1"), Vec::<String>::new());
    }

    #[test]
    fn unfinished_work_and_get_are_found() {
        let cases = [
            (
                "fn get_name() {}",
                "a.rs:1: fn get_name: a function that returns a thing is named for it: name",
            ),
            ("fn a() { todo!() }", "a.rs:1: todo!: finish it, or leave it out"),
            ("// TODO: later", "a.rs:1: TODO: finish it, or leave it out"),
            ("/* a\n FIXME(b) */", "a.rs:2: FIXME: finish it, or leave it out"),
        ];
        for (text, expected) in cases {
            assert_eq!(check(&sample("a.rs", text)), [expected]);
        }
        for text in ["let a = \"TODO\";", "map.get_mut(a); self.get(b);"] {
            assert_eq!(check(&sample("a.rs", text)), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn unsafe_outside_its_crates_is_found() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nfn a() { unsafe { b() } }";
        let found = check_unsafe(&sample("crates/sluice-server/src/a.rs", text));
        assert!(
            found.len() == 1 && found[0].starts_with("crates/sluice-server/src/a.rs:3: unsafe code lives only in"),
            "{found:?}"
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
