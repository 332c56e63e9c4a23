//! The keys of a site about what the server itself shows: pages of errors.
//!
//! Templates are read and tried here, so that a mistake in one is told before anything is served by it. Not here: what a
//! template may say (`sluice_server`, docs/guides/pages.md).

use std::collections::BTreeMap;

use sluice_server::settings::{ErrorSettings, Statuses};
use sluice_server::{Template, error_template};

use super::mistake::At;
use super::section::Section;

pub(super) fn read_errors(section: &Section<'_>) -> ErrorSettings {
    let mut templates = BTreeMap::new();
    for (statuses, name) in section.pairs("errors").unwrap_or_default() {
        match parse_statuses(&statuses) {
            Some(key) => {
                let template = read_template(section, &format!("errors: {statuses}"), &name);
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

fn read_template(section: &Section<'_>, key: &str, name: &At<String>) -> Option<Template> {
    let document = section.document;
    let path = document.resolve(&name.value);
    let refuse = |message: String| document.complain(name.line, format!("{key}: {message}"));
    let shown = path.display();
    let text = (document.read)(&path)
        .map_err(|reason| refuse(format!("{shown} {reason}")))
        .ok()?;
    let parsed = error_template(&path, &text).map_err(|error| match error.line {
        Some(line) => refuse(format!("{shown}:{line}: {}", error.text)),
        None => refuse(format!("{shown}: {}", error.text)),
    });
    parsed.ok()
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
        let told = mistake("errors = { 404 = 'pages/missing.html' }");
        let gone = "/etc/sluice/pages/missing.html cannot be read: No such file or directory";
        assert_eq!(told, format!("sluice.toml:3: errors: 404: {gone}"));
        let told = mistake("[site.errors]\n404 = 'broken.html'\n5xx = 'page.html'");
        assert!(
            told.starts_with("sluice.toml:4: errors: 404: /etc/sluice/broken.html:2: undefined value"),
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
}
