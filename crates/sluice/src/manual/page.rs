//! A manual page in the notation of man(7): its head, and the texts of help and reference, which are plain or a little Markdown.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// When the contents of the pages last changed with a release. The head of a page needs a day, and the day of the build would make each build another one.
const DATE: &str = "2026-11-22";

/// A page with its head.
pub(super) fn begin(title: &str, section: &str) -> Roff {
    let source = concat!("sluice ", env!("CARGO_PKG_VERSION"));
    let mut page = Roff::new();
    page.control("TH", [title, section, DATE, source, "Sluice"]);
    page
}

/// A section with one name in capitals.
pub(super) fn section(page: &mut Roff, title: &str) {
    page.control("SH", [title]);
}

/// Lines as they are, indented.
pub(super) fn literal<'a>(page: &mut Roff, lines: impl Iterator<Item = &'a str>) {
    page.control("RS", ["4"]);
    page.control("nf", []);
    for line in lines {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.control("RE", []);
}

/// A term, with its explanation in Markdown below it.
pub(super) fn item(page: &mut Roff, term: Vec<Inline>, text: &str) {
    page.control("TP", []);
    page.text(term);
    page.text(inlines(text));
}

/// A line of Markdown: code is bold, emphasis is italic, and of a link its text remains.
pub(super) fn inlines(text: &str) -> Vec<Inline> {
    let mut parts = Vec::new();
    for (index, part) in text.split('`').enumerate() {
        match index % 2 {
            1 => parts.push(bold(part)),
            _ => push_text(&mut parts, &without_targets(part)),
        }
    }
    parts
}

/// The texts between `*…*` in italics. A lone `*` stays.
fn push_text(parts: &mut Vec<Inline>, text: &str) {
    let chunks: Vec<&str> = text.split('*').collect();
    if chunks.len().is_multiple_of(2) {
        return parts.push(roman(text));
    }
    for (index, chunk) in chunks.into_iter().enumerate().filter(|(_, chunk)| !chunk.is_empty()) {
        parts.push(if index % 2 == 1 { italic(chunk) } else { roman(chunk) });
    }
}

/// `[text](target)` becomes `text`.
fn without_targets(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, shown, after)) = next_link(rest) {
        plain.push_str(before);
        plain.push_str(shown);
        rest = after;
    }
    plain + rest
}

/// Splits a text at its first link: the text before it, the text of the link, and the text after it.
fn next_link(text: &str) -> Option<(&str, &str, &str)> {
    let (head, tail) = text.split_once("](")?;
    let (before, shown) = head.rsplit_once('[')?;
    let (_, after) = tail.split_once(')')?;
    Some((before, shown, after))
}

#[test]
fn markdown_becomes_type() {
    let shown = Roff::new().text(inlines("a `b` *c*, [d](e#f) and [g](h)")).to_roff();
    assert_eq!(shown.trim_end(), r"a \fBb\fR \fIc\fR, d and g");
}
