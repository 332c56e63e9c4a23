//! `[compression]` and `[site.compression]`: from sections of the file to the server's settings of what is compressed.
//!
//! Here too: the key `compress` of a route, which must have something to compress.

use sluice_http::encoding::Encoding;
use sluice_settings::{Action, CompressionSettings, Precompressed};

use super::mistake::At;
use super::pages::is_token;
use super::script::put;
use super::section::Section;

/// Reads what holds for all sites.
pub(crate) fn read(root: &Section<'_>) -> CompressionSettings {
    read_from(root, CompressionSettings::default())
}

/// Reads what holds for a site: what it does not say is as for all.
pub(crate) fn read_site(site: &Section<'_>, server: &CompressionSettings) -> CompressionSettings {
    read_from(site, server.clone())
}

/// Reads `compress` of a route that does this, in a site with these settings.
pub(crate) fn read_route(route: &Section<'_>, action: Option<&Action>, settings: &CompressionSettings) -> Option<bool> {
    let compress = route.flag("compress")?.value;
    if matches!(action, Some(Action::Redirect { .. } | Action::Refuse(_))) {
        let what = if route.has("redirect") {
            "a redirect"
        } else {
            "a refusal"
        };
        route.refuse("compress", &format!("{what} has nothing to compress: remove it"));
    } else if compress && settings.encodings.is_empty() {
        route.refuse(
            "compress",
            "no encoding may be used here: take compression = false away, or name some encodings",
        );
    }
    Some(compress)
}

fn read_from(section: &Section<'_>, mut settings: CompressionSettings) -> CompressionSettings {
    if section.is_off("compression") {
        settings.encodings.clear();
        return settings;
    }
    let Some(section) = section.table("compression") else {
        return settings;
    };
    if settings.encodings.is_empty() {
        // Off for the server, but this site says how it wants it.
        settings.encodings = Encoding::ALL.to_vec();
    }
    if let Some(names) = section.texts("encodings") {
        settings.encodings = read_encodings(&section, &names);
    }
    if let Some(types) = section.texts("types") {
        for kind in types.iter().filter(|kind| !is_pattern(&kind.value)) {
            let message = format!(
                "types: \"{}\": is no media type without parameters, as in \"text/html\", \"text/*\" or \"application/*+json\"",
                kind.value.escape_debug()
            );
            section.document.complain(kind.line, message);
        }
        settings.types = types.into_iter().map(|kind| kind.value.to_ascii_lowercase()).collect();
    }
    put(&mut settings.least_bytes, section.size("least_size"));
    settings.files = match section.choice("files").map(|files| files.value) {
        Some("on") => Precompressed::OnDemand,
        Some("stored") => Precompressed::Static,
        Some(_) => Precompressed::Off,
        None => settings.files,
    };
    settings
}

fn read_encodings(section: &Section<'_>, names: &[At<String>]) -> Vec<Encoding> {
    if names.is_empty() {
        section.refuse(
            "encodings",
            "an empty list compresses nothing: write compression = false for that",
        );
    }
    let mut encodings = Vec::new();
    for name in names {
        let complain = |message: &str| {
            let message = format!("encodings: \"{}\": {message}", name.value.escape_debug());
            section.document.complain(name.line, message);
        };
        match name.value.parse() {
            Ok(encoding) if encodings.contains(&encoding) => complain("stands there twice: remove one"),
            Ok(encoding) => encodings.push(encoding),
            Err(message) => complain(message),
        }
    }
    encodings
}

/// `type/subtype`, with one `*` at most, or all types.
fn is_pattern(text: &str) -> bool {
    if text == "*/*" {
        return true;
    }
    // A star is a letter of a token, too (RFC 9110 §5.6.2).
    let has_parts = text
        .split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    has_parts && text.matches('*').count() <= 1
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    fn mistake(text: &str) -> String {
        let told = read(text).expect_err("a mistake");
        told.to_string()
    }

    #[test]
    fn a_site_says_what_is_other_than_for_all() {
        let settings = read(
            "[compression]\nencodings = ['zstd', 'br']\nleast_size = 100\n[[site]]\nhosts = ['a']\nroot = 'a'\n\
             [site.compression]\nfiles = 'off'\n[[site]]\nhosts = ['b']\nroot = 'b'\ncompression = false\n\
             [[site]]\nroot = 'c'\ncompression = { types = ['TEXT/*'], encodings = ['gzip'] }",
        )
        .expect("a good configuration");
        let [a, b, c] = [0, 1, 2].map(|index: usize| &settings.sites[index].compression);
        assert_eq!(a.encodings, [Encoding::Zstd, Encoding::Brotli]);
        assert_eq!((a.least_bytes, a.files), (100, Precompressed::Off));
        assert_eq!(b.encodings, []);
        assert_eq!(
            (&c.encodings[..], &c.types[..]),
            (&[Encoding::Gzip][..], &["text/*".to_owned()][..])
        );
        assert_eq!((c.least_bytes, c.files), (100, Precompressed::OnDemand));
    }

    #[test]
    fn the_guide_names_every_type_that_is_compressed() {
        let guide = include_str!("../../../../docs/guides/compression.md");
        for kind in CompressionSettings::default().types {
            assert!(guide.contains(&format!("`{kind}`")), "{kind}");
        }
    }

    #[test]
    fn a_site_with_a_section_is_compressed_though_the_server_is_not() {
        let settings = read(
            "compression = false\n[[site]]\nhosts = ['a']\nroot = 'a'\n\
             [[site]]\nroot = 'b'\ncompression = { files = 'stored' }",
        )
        .expect("a good configuration");
        let [a, b] = [0, 1].map(|index: usize| &settings.sites[index].compression);
        assert_eq!((&a.encodings[..], &b.encodings[..]), (&[][..], &Encoding::ALL[..]));
        assert_eq!(b.files, Precompressed::Static);
    }

    #[test]
    fn mistakes_are_told_with_their_mend() {
        let site = "[[site]]\nroot = 'a'\n";
        for (keys, message) in [
            (
                "compression = { encodings = ['gzip', 'deflate'] }",
                "encodings: \"deflate\": must be \"br\", \"zstd\" or \"gzip\"",
            ),
            (
                "compression = { encodings = ['br', 'br'] }",
                "encodings: \"br\": stands there twice: remove one",
            ),
            (
                "compression = { encodings = [] }",
                "encodings = []: an empty list compresses nothing: write compression = false for that",
            ),
            (
                "compression = { types = ['text'] }",
                "types: \"text\": is no media type without parameters, as in \"text/html\", \"text/*\" or \"application/*+json\"",
            ),
            (
                "compression = { types = ['a/*b*'] }",
                "types: \"a/*b*\": is no media type without parameters, as in \"text/html\", \"text/*\" or \"application/*+json\"",
            ),
            (
                "compression = { files = true }",
                "files = true: must be \"on\", \"stored\" or \"off\"",
            ),
            (
                "compression = true",
                "compression = true: must be one table, as in compression = { files = \"stored\" }",
            ),
            (
                "route = [{ path = '/a', redirect = { to = '/b' }, compress = true }]",
                "compress = true: a redirect has nothing to compress: remove it",
            ),
        ] {
            assert_eq!(mistake(&format!("{site}{keys}")), format!("sluice.toml:3: {message}"));
        }
        let told = mistake(&format!(
            "compression = false\n{site}route = [{{ path = '/a/*', files = {{ directory = 'a' }}, compress = true }}]"
        ));
        let message = "no encoding may be used here: take compression = false away, or name some encodings";
        assert_eq!(told, format!("sluice.toml:4: compress = true: {message}"));
    }
}
