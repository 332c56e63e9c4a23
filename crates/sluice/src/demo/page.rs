//! The index page, completed for this machine: sources are inserted, and links to programs that cannot run are replaced by the reason.
//!
//! The page is plain HTML with three kinds of marks, each a comment: `source: NAME`, `sources`, and `needs: NAME` … `end: NAME`.

use std::fmt;

use super::files::{Needs, SCRIPTS, Script};

impl fmt::Display for Needs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Needs::Build => out.write_str("not built (run \"make sdk\")"),
            Needs::Engine(name) => write!(out, "the engine of {name} is not there (run \"make sdk\")"),
            Needs::Interpreter(name) => write!(out, "{name} is not installed (or not in PATH)"),
        }
    }
}

pub(crate) fn complete(page: &str, missing: &[(&str, Needs)]) -> String {
    let mut page = page.replace("<!-- sources -->\n", &list_of_sources());
    for script in &SCRIPTS {
        let source = format!("<pre><code>{}</code></pre>", escape(script.text));
        page = page.replace(&format!("<!-- source: {} -->", script.name), &source);
    }
    for (name, reason) in missing {
        let notice = format!(
            "<dt class=\"missing\">{name}</dt>\n<dd class=\"missing\">{}</dd>\n",
            escape(&reason.to_string())
        );
        page = replace_block(&page, name, |_| &notice);
    }
    for script in &SCRIPTS {
        page = replace_block(&page, script.name, |block| block);
    }
    page
}

/// Replaces each block that needs `name`, its marks included.
fn replace_block<'a>(page: &'a str, name: &str, replacement: impl Fn(&'a str) -> &'a str) -> String {
    let (start, end) = (format!("<!-- needs: {name} -->\n"), format!("<!-- end: {name} -->\n"));
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(&start) {
        let Some((block, after)) = after.split_once(&end) else {
            break;
        };
        out.push_str(before);
        out.push_str(replacement(block));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A list item for each source under `/source/`.
fn list_of_sources() -> String {
    let item = |script: &Script| format!("<li><a href=\"/source/{0}.txt\">{0}</a></li>\n", script.source);
    SCRIPTS.iter().map(item).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::files::INDEX;
    use super::*;

    #[test]
    fn no_mark_is_left_whatever_is_missing() {
        let all: Vec<(&str, Needs)> = SCRIPTS.iter().map(|script| (script.name, script.needs)).collect();
        for missing in [&all[..0], &all[..2], &all] {
            let page = complete(INDEX, missing);
            let (_, body) = page.split_once("<head>").expect("a head");
            assert_eq!(body.matches("<!--").count(), 0, "{body}");
        }
    }

    #[test]
    fn sources_are_text_on_the_page() {
        let page = complete("<!-- source: counter.sh -->\n<ul>\n<!-- sources -->\n</ul>", &[]);
        assert!(page.starts_with("<pre><code>#!/bin/sh\n"), "{page}");
        assert!(page.contains("while IFS= read -r start &lt;&amp;3; do"), "{page}");
        assert!(
            page.contains("\n<li><a href=\"/source/printenv.c.txt\">printenv.c</a></li>\n"),
            "{page}"
        );
    }

    #[test]
    fn only_blocks_of_missing_programs_become_notices() {
        let page = "a\n<!-- needs: counter.pl -->\nb\n<!-- end: counter.pl -->\nc\n<!-- needs: counter.py -->\nd\n<!-- end: counter.py -->\n";
        let completed = complete(page, &[("counter.pl", Needs::Interpreter("perl"))]);
        assert_eq!(
            completed,
            "a\n<dt class=\"missing\">counter.pl</dt>\n<dd class=\"missing\">perl is not installed (or not in PATH)</dd>\nc\nd\n"
        );
    }
}
