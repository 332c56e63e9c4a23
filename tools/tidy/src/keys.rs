//! The keys that the pages name: they are keys of the reference page, and of the tables to which the pages assign them.
//!
//! Here: the blocks of TOML and the code spans of a page. Not here: the tables, and the keys in an excerpt of TOML (`key_tables`).

use std::collections::BTreeSet;

use crate::key_tables::KeyTables;
use crate::source::{Source, Text};

/// The generated page with all keys.
pub(crate) const REFERENCE: &str = "docs/reference/configuration.md";
/// Pages with keys of the past or of other servers, or with words of the code; and the texts of the reference page.
const NOT_FOR_USERS: [&str; 9] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/",
    "conformance/",
    "crates/sluice-config/src/",
    "docs/internals/",
    "fuzz/",
];
/// Words of other programs in pages for users, outside the first columns of the guides about moving from these programs.
const OF_OTHERS: [&str; 5] = [
    "add_header",
    "auth_pam",
    "default_server",
    "public_html",
    "realpath_cache_ttl",
];
/// Endings of files, which tell the file `server.log` from a key of `[server]`.
const ENDINGS: [&str; 6] = [".log", ".md", ".py", ".rs", ".sh", ".toml"];
/// Words between the last of several keys and their table.
const BETWEEN: [&str; 2] = [" of ", " in "];
/// Words between keys of one table.
const AMONG: [&str; 4] = [", ", " and ", ", and ", " or "];

/// A code span in a paragraph or in a row of a table.
struct Span {
    code: String,
    /// The prose before it, up to the span before.
    before: String,
    /// The prose behind it, up to the next span.
    after: String,
    line: usize,
    /// Whether it is in the first cell of a row of a table.
    is_in_first_cell: bool,
}

/// Words with an underscore in quoted text of Rust, and in sources of other languages, such as names of functions.
pub(crate) fn known_words<'a>(sources: &'a [Source], others: impl Iterator<Item = &'a Text>) -> BTreeSet<&'a str> {
    let quoted = sources.iter().map(|source| source.quoted.as_str());
    let texts = quoted.chain(others.map(|text| text.text.as_str()));
    let words = texts.flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
    words.filter(|word| word.contains('_') && is_key(word)).collect()
}

/// Finds keys in a page that do not exist, or not in the table that the page says.
pub(crate) fn check(page: &Text, tables: &KeyTables, words: &BTreeSet<&str>) -> Vec<String> {
    if page.path == REFERENCE || NOT_FOR_USERS.iter().any(|path| page.path.starts_with(path)) {
        return Vec::new();
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    for (line, block) in toml_blocks(&page.text) {
        let in_block = tables.check(&block).into_iter();
        found.extend(in_block.map(|(below, text)| (line + below, text)));
    }
    let mut spans = spans(&page.text);
    if page.path.starts_with("docs/guides/migrating-") {
        spans.retain(|span| !span.is_in_first_cell);
    }
    for (index, span) in spans.iter().enumerate() {
        let texts = [
            check_alone(&span.code, tables, words),
            check_table_of(&spans[..=index], tables),
        ];
        found.extend(texts.into_iter().flatten().map(|text| (span.line, text)));
    }
    found.sort();
    let findings = found.into_iter();
    findings
        .map(|(line, text)| format!("{}:{line}: {text} (see {REFERENCE})", page.path))
        .collect()
}

/// A span that is a key with its value, a header, a path such as `limits.body_size`, or a word with an underscore.
fn check_alone(code: &str, tables: &KeyTables, words: &BTreeSet<&str>) -> Option<String> {
    if let Some((key, value)) = code.split_once(" = ") {
        let is_toml = value.starts_with(|first: char| "\"'[{…".contains(first) || first.is_ascii_digit())
            || ["true", "false"].contains(&value);
        return match is_key(key) && is_toml {
            true => tables.check(code).into_iter().next().map(|(_, text)| text),
            false => None,
        };
    }
    if is_header(code) {
        return tables.table_of_header(code).err();
    }
    if let Some((table, _)) = code.split_once('.') {
        let is_path = code.split('.').all(is_key) && !ENDINGS.iter().any(|ending| code.ends_with(ending));
        let is_path = is_path && tables.is_in(table, &[String::new()]) && !tables.tables_of_key(table).is_empty();
        return is_path
            .then(|| tables.check(&format!("{code} = 0")).into_iter().next())?
            .map(|(_, text)| text);
    }
    let is_unknown = code.contains('_') && is_key(code) && !tables.has_key(code);
    (is_unknown && !words.contains(code) && !OF_OTHERS.contains(&code)).then(|| {
        format!("`{code}` is no key of the configuration, and no program or library of this tree has that word")
    })
}

/// Keys before their table: "`a` and `b` in `[limits]`", "`c` of a route". `spans` ends with the table, or with the last key.
fn check_table_of(spans: &[Span], tables: &KeyTables) -> Option<String> {
    let (last, before) = spans.split_last()?;
    let (homes, keys, name) = if let Some(homes) = homes_of_words(&last.after, tables) {
        (homes, spans, "a route or a site")
    } else if BETWEEN.contains(&last.before.as_str()) {
        let homes = match is_header(&last.code) {
            true => tables.table_of_header(&last.code).into_iter().flatten().collect(),
            false => tables.tables_of_key(&last.code),
        };
        (homes, before, last.code.as_str())
    } else {
        return None;
    };
    if homes.is_empty() {
        return None;
    }
    for (index, span) in keys.iter().enumerate().rev() {
        let key = span.code.split(" = ").next().unwrap_or_default();
        if is_key(key) && !tables.is_in(key, &homes) {
            return Some(format!("`{key}` is no key of {name}"));
        }
        if !AMONG.contains(&span.before.as_str()) || index == 0 {
            break;
        }
    }
    None
}

/// The tables that the words behind a span name.
fn homes_of_words(after: &str, tables: &KeyTables) -> Option<Vec<String>> {
    let begins = |noun: &str| {
        let articles = ["a", "the", "its", "each", "this"];
        articles.iter().any(|article| {
            let rest = BETWEEN.iter().find_map(|word| after.strip_prefix(word));
            let rest = rest.and_then(|rest| rest.strip_prefix(&format!("{article} {noun}")));
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric) && !rest.starts_with('\''))
        })
    };
    match (begins("route"), begins("site")) {
        (true, _) => Some(tables.within("site.route")),
        (_, true) => Some(tables.within("site")),
        _ => None,
    }
}

/// Whether a text is written like a key or a table: `limits`, `body_size`.
fn is_key(text: &str) -> bool {
    let is_of_key = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.chars().all(is_of_key) && !text.ends_with('_')
}

/// Whether a text is a header of TOML, or a header with a key behind it: `[limits]`, `[[site.route]].script`.
fn is_header(text: &str) -> bool {
    text.starts_with('[') && text.contains(']') && text.replace(['[', ']'], "").split('.').all(is_key)
}

/// The blocks of TOML, each with the number of its first line.
fn toml_blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in page.lines().enumerate() {
        let mark = line.trim_start();
        match &mut open {
            Some(_) if mark.starts_with("```") => blocks.extend(open.take()),
            Some((_, block)) => {
                block.push_str(line);
                block.push('\n');
            }
            None if mark == "```toml" => open = Some((index + 2, String::new())),
            None => {}
        }
    }
    blocks
}

/// The code spans of a page outside its blocks of code. A span may go on in the next line of its paragraph.
fn spans(page: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let (mut is_fenced, mut paragraph, mut first_line) = (false, String::new(), 1);
    for (index, line) in page.lines().chain([""]).enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        let is_row = line.starts_with('|');
        if is_fence || is_fenced || is_row || line.trim().is_empty() {
            spans.extend(spans_of(&std::mem::take(&mut paragraph), first_line));
        }
        is_fenced ^= is_fence;
        if is_fence || is_fenced || line.trim().is_empty() {
            continue;
        }
        if paragraph.is_empty() {
            first_line = index + 1;
        }
        paragraph = paragraph + line + "\n";
    }
    spans
}

/// The code spans of a paragraph or of a row of a table.
fn spans_of(paragraph: &str, first_line: usize) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let (mut at, mut before) = (0, 0);
    while let Some(start) = paragraph[at..].find('`').map(|start| at + start) {
        let marks = paragraph[start..].len() - paragraph[start..].trim_start_matches('`').len();
        let begin = start + marks;
        let Some(end) = end_of_code(&paragraph[begin..], marks).map(|end| begin + end) else {
            at = begin;
            continue;
        };
        let text = one_line(&paragraph[before..start]);
        if let Some(last) = spans.last_mut() {
            last.after.clone_from(&text);
        }
        spans.push(Span {
            code: one_line(&paragraph[begin..end]),
            before: text.trim_end_matches('[').to_owned(),
            after: String::new(),
            line: first_line + paragraph[..start].matches('\n').count(),
            is_in_first_cell: paragraph.starts_with('|') && !paragraph[1..start].contains(" | "),
        });
        (at, before) = (end + marks, end + marks);
    }
    if let Some(last) = spans.last_mut() {
        last.after = one_line(&paragraph[before..]);
    }
    spans
}

/// Where a run of exactly so many marks begins.
fn end_of_code(text: &str, marks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(start) = text[at..].find('`').map(|start| at + start) {
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == marks {
            return Some(start);
        }
        at = start + run;
    }
    None
}

/// The text with each run of white space as one blank.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split(char::is_whitespace).collect();
    let last = words.len() - 1;
    let words = words.iter().enumerate();
    let kept: Vec<&str> = words
        .filter(|(index, word)| !word.is_empty() || [0, last].contains(index))
        .map(|(_, word)| *word)
        .collect();
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sample;

    /// A reference page with the forms of the generated one.
    const PAGE: &str = "## The file\n\n| key | value | default | |\n|---|---|---|---|\n\
        | `listen` | [sections](#listen) | none | An address. |\n\
        | `limits` | [section](#limits) | none | Bounds. |\n\
        | `site` | [sections](#site) | none | A host. |\n\
        | `blocks` | [sections](#blocksname) | none | Keys. |\n\
        ## `[blocks.NAME]`\n| `use` | text | none | |\n\
        ## Included files\n| `route` | [sections](#siteroute) | none | A route. |\n\
        ## `[[listen]]`\n| `address` | text | none | |\n| `redirect` | `\"https\"` | none | |\n\
        ## `[limits]`\n| `body_size` | size | none | |\n\
        ## `[[site]]`\n| `root` | path | none | |\n| `route` | [sections](#siteroute) | none | |\n\
        ## `[[site.route]]`\n| `path` | text | none | |\n| `script` | [section](#siteroutescript) | none | |\n\
        ## `[[site.route]].script`\n| `max` | number, at most 9 | none | |\n\
        | `environment` | table of texts | none | |\n";

    fn found(page: &str) -> Vec<String> {
        let tables = KeyTables::new(&text(REFERENCE, PAGE));
        let sources = [sample("a.rs", "fn own_name() { say(\"client_name\"); }")];
        let library = text("sdk/a.c", "int sluice_write(void);");
        let words = known_words(&sources, [&library].into_iter());
        let findings = check(&text("docs/guides/a.md", page), &tables, &words);
        let findings = findings.into_iter();
        findings
            .map(|finding| finding.replace(" (see docs/reference/configuration.md)", ""))
            .collect()
    }

    fn text(path: &str, text: &str) -> Text {
        Text { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn keys_that_exist_are_accepted() {
        for page in [
            "`body_size` of `[limits]`, `max = 4` and `environment` in `script`, `limits.body_size`, `[[site.route]].script`",
            "`max` of the route, `root` of a\nsite, `server.log`, `client_name`, `sluice_write`, `auth_pam`, `env = x`",
            "```toml\n[[site]]\nroot = \"a]b\" # c = 1\n  [[site.route]]\n  path = '/\"*'\n  script = { …, max = 4, environment = { any_name = \"}\" } }\n```",
            "```toml\nscript = { max = [\n 1, 2 ] }\npath = \"/x\"\n[[route]]\npath = \"/y\"\nscript.max = 3\n[route.script.environment]\nA = 1\n```",
            "`[blocks.mine]`\n```toml\n[blocks.mine]\npath = '/a'\nroot = 'b'\nuse = 'c'\n[blocks.mine.script]\nmax = 1\n```",
            "```sh\nno_key = 1 # `no_key`\n```\n```nginx\nno_key = 1\n```",
        ] {
            assert_eq!(found(page), Vec::<String>::new(), "{page}");
        }
    }

    #[test]
    fn keys_that_do_not_exist_are_found() {
        let names = "no program or library of this tree has that word";
        for (page, line, finding) in [
            (
                "a\n`own_name`",
                2,
                format!("`own_name` is no key of the configuration, and {names}"),
            ),
            (
                "`redirect_to = \"https\"`",
                1,
                "`redirect_to` is no key of the configuration".to_owned(),
            ),
            (
                "`script = { processes = 4 }`",
                1,
                "`processes` is no key of the configuration".to_owned(),
            ),
            (
                "`limits.max`",
                1,
                "`max` is no key of this table; it is one of site.route.script".to_owned(),
            ),
            ("`root` in `[[listen]]`", 1, "`root` is no key of [[listen]]".to_owned()),
            (
                "`root`, `address` and\n`redirect = \"https\"` in [`[[listen]]`](x.md)",
                2,
                "`root` is no key of [[listen]]".to_owned(),
            ),
            (
                "`body_size` of the route",
                1,
                "`body_size` is no key of a route or a site".to_owned(),
            ),
            ("`path` in `script`", 1, "`path` is no key of script".to_owned()),
            (
                "see `[sites]`",
                1,
                "[sites] is no table of the configuration".to_owned(),
            ),
            (
                "```toml\n[[listen]]\naddress = \"1\"\nroot = \"x\"\n```",
                4,
                "`root` is no key of this table; it is one of site".to_owned(),
            ),
            (
                "```toml\n[listen]\nanything = 1\n```",
                2,
                "[listen]: write [[listen]], because there may be several".to_owned(),
            ),
            (
                "```toml\n[[limits]]\n```",
                2,
                "[[limits]]: write [limits], because there is one".to_owned(),
            ),
            (
                "```toml\nmax = 4\nroot = \"x\"\n```",
                3,
                "`root` is no key of this table; it is one of site".to_owned(),
            ),
            (
                "```toml\n[[site.route]]\nscript = { environment = { a = 1 },\n  least = 1 }\n```",
                4,
                "`least` is no key of the configuration".to_owned(),
            ),
        ] {
            assert_eq!(found(page), [format!("docs/guides/a.md:{line}: {finding}")], "{page}");
        }
    }

    #[test]
    fn first_columns_about_other_programs_and_pages_about_the_code_are_not_searched() {
        let tables = KeyTables::new(&text(REFERENCE, PAGE));
        let row = "| `proxy_pass`, `a = 1` | `no_key` |\n";
        let findings = |path: &str| check(&text(path, row), &tables, &BTreeSet::new()).len();
        assert_eq!(findings("docs/guides/migrating-from-nginx.md"), 1);
        assert_eq!(findings("docs/guides/files.md"), 3);
        assert_eq!(findings("docs/internals/files.md"), 0);
    }
}
