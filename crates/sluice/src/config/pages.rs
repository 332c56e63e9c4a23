//! The keys of a site about what the server itself shows: types of files, listings, pages of errors.
//!
//! Templates are read and tried here, so that a mistake in one is told before anything is served by it. Not here: what a
//! template may say (`sluice_server`, docs/guides/pages.md).

use std::collections::BTreeMap;
use std::path::Path;

use sluice_files::listing::page::listing_template;
use sluice_server::error_template;
use sluice_settings::template::{Template, TemplateError};
use sluice_settings::{CacheUse, ErrorSettings, FileSettings, Statuses};

use super::mistake::At;
use super::section::Section;

/// Reads a template of one kind.
type Parse = fn(&Path, &str) -> Result<Template, TemplateError>;

pub(super) fn read_files(section: &Section<'_>) -> FileSettings {
    let default = FileSettings::default();
    FileSettings {
        types: read_types(section),
        charset: read_charset(section).unwrap_or(default.charset),
        cache: read_cache_use(section).unwrap_or(default.cache),
        listing: section.flag("listing").map_or(default.listing, |flag| flag.value),
        listing_template: section
            .text("listing_template")
            .and_then(|name| read_template(section, "listing_template", &name, listing_template)),
    }
}

/// How files are kept in the cache, of a site or of a route.
pub(super) fn read_cache_use(section: &Section<'_>) -> Option<CacheUse> {
    Some(match section.choice("cache")?.value {
        "off" => CacheUse::Off,
        "permanent" => CacheUse::Permanent,
        _ => CacheUse::On,
    })
}

pub(super) fn read_errors(section: &Section<'_>) -> ErrorSettings {
    let mut templates = BTreeMap::new();
    for (statuses, name) in section.pairs("errors").unwrap_or_default() {
        match parse_statuses(&statuses) {
            Some(key) => {
                let template = read_template(section, &format!("errors: {statuses}"), &name, error_template);
                templates.extend(template.map(|template| (key, template)));
            }
            None => section.document.complain(
                name.line,
                format!(
                    "errors: \"{}\": is no status of an error: write one from 400 to 599, \"4xx\" or \"5xx\"",
                    statuses.escape_debug()
                ),
            ),
        }
    }
    ErrorSettings {
        detail: section.flag("error_detail").is_some_and(|flag| flag.value),
        templates,
    }
}

fn parse_statuses(text: &str) -> Option<Statuses> {
    match text {
        "4xx" => Some(Statuses::Class(4)),
        "5xx" => Some(Statuses::Class(5)),
        // No sign, no zero in front: the same status cannot stand there twice.
        text if text.len() == 3 => text
            .parse()
            .ok()
            .filter(|status| (400..600).contains(status))
            .map(Statuses::One),
        _ => None,
    }
}

fn read_template(section: &Section<'_>, key: &str, name: &At<String>, parse: Parse) -> Option<Template> {
    let document = section.document;
    let path = document.resolve(&name.value);
    let refuse = |message: String| document.complain(name.line, format!("{key}: {message}"));
    let shown = path.display();
    let text = (document.read)(&path)
        .map_err(|reason| refuse(format!("{shown} {reason}")))
        .ok()?;
    let parsed = parse(&path, &text).map_err(|error| match error.line {
        Some(line) => refuse(format!("{shown}:{line}: {}", error.text)),
        None => refuse(format!("{shown}: {}", error.text)),
    });
    parsed.ok()
}

fn read_types(section: &Section<'_>) -> BTreeMap<String, String> {
    let mut types = BTreeMap::new();
    for (ending, kind) in section.pairs("types").unwrap_or_default() {
        let complain = |message: String| section.document.complain(kind.line, format!("types: {message}"));
        if ending.len() < 2 || !ending.starts_with('.') || ending.contains('/') {
            complain(format!(
                "\"{}\": an ending is written with its dot, as in \".foo\"",
                ending.escape_debug()
            ));
        } else if !is_media_type(&kind.value) {
            complain(format!(
                "\"{}\": is no media type: write it as in \"text/x-foo\" or \"text/html; charset=iso-8859-1\"",
                kind.value.escape_debug()
            ));
        }
        types.insert(ending, kind.value);
    }
    types
}

fn read_charset(section: &Section<'_>) -> Option<String> {
    let charset = section.text("charset")?.value;
    if !charset.is_empty() && !is_token(&charset) {
        section.refuse("charset", "is no name of a charset, as in \"utf-8\"");
    }
    Some(charset)
}

/// `type/subtype`, and parameters (RFC 9110 §8.3.1).
fn is_media_type(text: &str) -> bool {
    let mut parts = text.split(';').map(str::trim);
    let is_type = |name: &str| {
        name.split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
    };
    let is_parameter = |parameter: &str| {
        let is_value = |value: &str| is_token(value.trim_matches('"'));
        parameter
            .split_once('=')
            .is_some_and(|(name, value)| is_token(name) && is_value(value))
    };
    parts.next().is_some_and(is_type) && parts.all(is_parameter)
}

/// RFC 9110 §5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    fn mistake(keys: &str) -> String {
        let told = read(&format!("[[site]]\nroot = 'a'\n{keys}")).expect_err("a mistake");
        told.to_string()
    }

    #[test]
    fn templates_are_read_and_tried() {
        let told = mistake("listing_template = 'pages/missing.html'");
        let gone = "/etc/sluice/pages/missing.html cannot be read: No such file or directory";
        assert_eq!(told, format!("sluice.toml:3: listing_template: {gone}"));
        let told = mistake("[site.errors]\n404 = 'broken.html'\n5xx = 'page.html'");
        assert!(
            told.starts_with("sluice.toml:4: errors: 404: /etc/sluice/broken.html:2: undefined value"),
            "{told}"
        );
        let told = mistake("listing_template = 'broken.html'");
        assert!(
            told.starts_with("sluice.toml:3: listing_template: /etc/sluice/broken.html:2: "),
            "{told}"
        );
    }

    #[test]
    fn pages_are_for_statuses_of_errors() {
        for wrong in ["200", "600", "4XX", "040", "+404", "04", "four"] {
            let told = mistake(&format!("errors = {{ '{wrong}' = 'page.html' }}"));
            let message = "is no status of an error: write one from 400 to 599, \"4xx\" or \"5xx\"";
            assert_eq!(told, format!("sluice.toml:3: errors: \"{wrong}\": {message}"));
        }
        let settings =
            read("[[site]]\nroot = 'a'\nerrors = { 404 = 'page.html', 599 = 'page.html', 4xx = 'page.html' }");
        let templates = settings.expect("good pages").sites.swap_remove(0).errors.templates;
        let keys: Vec<_> = templates.into_keys().collect();
        assert_eq!(keys, [Statuses::One(404), Statuses::One(599), Statuses::Class(4)]);
    }

    #[test]
    fn types_and_charsets_that_cannot_be_sent_are_refused() {
        let ending = "an ending is written with its dot, as in \".foo\"";
        let kind = "is no media type: write it as in \"text/x-foo\" or \"text/html; charset=iso-8859-1\"";
        for (keys, message) in [
            ("types = { foo = 'text/x-foo' }", format!("types: \"foo\": {ending}")),
            ("types = { '.' = 'text/x-foo' }", format!("types: \".\": {ending}")),
            ("types = { '.foo' = 'text' }", format!("types: \"text\": {kind}")),
            ("types = { '.foo' = 'text/' }", format!("types: \"text/\": {kind}")),
            (
                "types = { '.foo' = 'text/a; b' }",
                format!("types: \"text/a; b\": {kind}"),
            ),
            (
                "types = { '.foo' = \"text/a\\nb\" }",
                format!("types: \"text/a\\nb\": {kind}"),
            ),
            (
                "charset = 'utf 8'",
                "charset = 'utf 8': is no name of a charset, as in \"utf-8\"".to_owned(),
            ),
            (
                "listing = 'yes'",
                "listing = 'yes': must be true or false, as in listing = true".to_owned(),
            ),
        ] {
            assert_eq!(mistake(keys), format!("sluice.toml:3: {message}"));
        }
        for good in [
            "text/x-foo",
            "text/html; charset=iso-8859-1",
            "application/vnd.a+json",
            "a/b;c=\"d\"",
        ] {
            assert!(is_media_type(good), "{good}");
        }
    }
}
