//! Pages and media types that a site gets from the server: templates of directory listings and of error pages, types of files.
//!
//! Templates are parsed here, so that a mistake in one is reported before the site serves anything.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_files::listing::page::listing_template;
use sluice_settings::Statuses;
use sluice_settings::error_page::error_template;
use sluice_settings::template::{Template, TemplateError};

use super::document::{At, Document};
use super::media_type::{is_media_type, is_token};
use super::table::Written;

/// The consequence of a template that a start does without.
const BUILT_IN: &str = "the built-in page is sent instead, until the next reload";

/// Parses a template of one kind.
type Parse = fn(&Path, &str) -> Result<Template, TemplateError>;

/// The template of directory listings. `None` if it is wrong; that has been reported.
pub(super) fn read_listing_template(path: &Path, written: &Written<'_>) -> Option<Template> {
    read_template(
        written.document(),
        &written.at(written.name.to_owned()),
        path,
        listing_template,
    )
}

/// The templates of error pages.
pub(super) fn read_error_templates(
    pairs: &[(String, At<String>)],
    written: &Written<'_>,
) -> BTreeMap<Statuses, Template> {
    let document = written.document();
    let mut templates = BTreeMap::new();
    for (statuses, name) in pairs {
        let Some(key) = parse_statuses(statuses) else {
            let message = format!(
                "errors: \"{}\": is not the status of an error: write one from 400 to 599, \"4xx\" or \"5xx\"",
                statuses.escape_debug()
            );
            document.report(name.line, message);
            continue;
        };
        let origin = At::new(format!("errors: {statuses}"), name.line);
        let path = document.resolve(name.line, &name.value);
        if is_like_url(&name.value)
            && let Err(reason) = document.files.read_template(&path)
        {
            let message = format!(
                "errors: {statuses}: {} {reason}; an error page is a file, not a URL: write, for instance, \"htdocs/{statuses}.html\"",
                name.value.escape_debug()
            );
            document.report_fault(name.line, &path, &message, BUILT_IN);
            continue;
        }
        let template = read_template(document, &origin, &path, error_template);
        templates.extend(template.map(|template| (key, template)));
    }
    templates
}

/// Whether the name of an error page may be meant as the path of a URL, or as a URL.
fn is_like_url(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://") || name.starts_with('/')
}

fn parse_statuses(text: &str) -> Option<Statuses> {
    match text {
        "4xx" => Some(Statuses::Class(4)),
        "5xx" => Some(Statuses::Class(5)),
        // Three digits without a sign, so that the same status cannot be written in two ways.
        text if text.len() == 3 => text
            .parse()
            .ok()
            .filter(|status| (400..600).contains(status))
            .map(Statuses::One),
        _ => None,
    }
}

fn read_template(document: &Document<'_>, origin: &At<String>, path: &Path, parse: Parse) -> Option<Template> {
    let refuse =
        |message: String| document.report_fault(origin.line, path, &format!("{}: {message}", origin.value), BUILT_IN);
    let shown = path.display();
    let text = document
        .files
        .read_template(path)
        .map_err(|reason| refuse(format!("{shown} {reason}")))
        .ok()?;
    let parsed = parse(path, &text).map_err(|error| match error.line {
        Some(line) => refuse(format!("{shown}:{line}: {}", error.text)),
        None => refuse(format!("{shown}: {}", error.text)),
    });
    parsed.ok()
}

/// Media types by suffix; wrong ones are reported.
pub(super) fn read_types(pairs: Vec<(String, At<String>)>, written: &Written<'_>) -> BTreeMap<String, String> {
    written.document().each_pair(pairs, |suffix, kind| {
        if suffix.len() < 2 || !suffix.starts_with('.') || suffix.contains('/') {
            return Err(format!(
                "types: \"{}\": a suffix is written with its dot, as in \".foo\"",
                suffix.escape_debug()
            ));
        }
        match is_media_type(&kind.value) {
            true => Ok(kind.value.clone()),
            false => Err(format!(
                "types: \"{}\": is not a media type: write it as in \"text/x-foo\" or \"text/html; charset=iso-8859-1\"",
                kind.value.escape_debug()
            )),
        }
    })
}

pub(super) fn check_charset(charset: &str) -> Result<(), String> {
    if !charset.is_empty() && !is_token(charset) {
        return Err("is not the name of a charset, as in \"utf-8\"".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    fn mistake(keys: &str) -> String {
        let shown = read(&format!("[[site]]\nroot = 'a'\n{keys}")).expect_err("a mistake");
        shown.to_string()
    }

    #[test]
    fn templates_are_parsed() {
        let shown = mistake("listing_template = 'pages/missing.html'");
        let gone = "/etc/sluice/pages/missing.html cannot be read: No such file or directory";
        assert_eq!(shown, format!("sluice.toml:3: listing_template: {gone}"));
        let shown = mistake("[site.errors]\n404 = 'broken.html'\n5xx = 'page.html'");
        assert!(
            shown.starts_with("sluice.toml:4: errors: 404: /etc/sluice/broken.html:2: undefined value"),
            "{shown}"
        );
        let shown = mistake("listing_template = 'broken.html'");
        assert!(
            shown.starts_with("sluice.toml:3: listing_template: /etc/sluice/broken.html:2: "),
            "{shown}"
        );
    }

    #[test]
    fn error_pages_need_the_status_of_an_error() {
        for wrong in ["200", "600", "4XX", "040", "+404", "04", "four"] {
            let shown = mistake(&format!("errors = {{ '{wrong}' = 'page.html' }}"));
            let message = "is not the status of an error: write one from 400 to 599, \"4xx\" or \"5xx\"";
            assert_eq!(shown, format!("sluice.toml:3: errors: \"{wrong}\": {message}"));
        }
        let settings =
            read("[[site]]\nroot = 'a'\nerrors = { 404 = 'page.html', 599 = 'page.html', 4xx = 'page.html' }");
        let templates = settings.expect("valid pages").sites.swap_remove(0).errors.templates;
        let keys: Vec<_> = templates.into_keys().collect();
        assert_eq!(keys, [Statuses::One(404), Statuses::One(599), Statuses::Class(4)]);
    }

    #[test]
    fn invalid_types_and_charsets_are_refused() {
        let suffix = "a suffix is written with its dot, as in \".foo\"";
        let kind = "is not a media type: write it as in \"text/x-foo\" or \"text/html; charset=iso-8859-1\"";
        for (keys, message) in [
            ("types = { foo = 'text/x-foo' }", format!("types: \"foo\": {suffix}")),
            ("types = { '.' = 'text/x-foo' }", format!("types: \".\": {suffix}")),
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
                "charset = 'utf 8': is not the name of a charset, as in \"utf-8\"".to_owned(),
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
