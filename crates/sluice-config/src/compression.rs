//! `[compression]` and `[site.compression]`: what is compressed, and how.

use sluice_http::encoding::Encoding;
use sluice_settings::{CompressionSettings, Precompressed};

use super::document::At;
use super::key::{ANY, Key, Section, set};
use super::media_type::is_token;
use super::table::Written;

pub(super) static COMPRESSION: Section<CompressionSettings> = Section {
    title: "[compression]",
    keys: &[ENCODINGS, TYPES, LEAST_SIZE, FILES],
};

pub(super) static SITE_COMPRESSION: Section<CompressionSettings> = Section {
    title: "[site.compression]",
    keys: &[ENCODINGS, TYPES, LEAST_SIZE, FILES],
};

const ENCODINGS: Key<CompressionSettings> = Key::texts("encodings", |settings, names, written| {
    set(&mut settings.encodings, read_encodings(names, written)?)
});

const TYPES: Key<CompressionSettings> = Key::texts("types", |settings, types, written| {
    set(&mut settings.types, read_types(types, written))
});

const LEAST_SIZE: Key<CompressionSettings> = Key::size("least_size", ANY, |settings, size| settings.least_bytes = size);

const FILES: Key<CompressionSettings> = Key::choice(
    "files",
    &[
        ("on", |settings| settings.files = Precompressed::OnDemand),
        ("stored", |settings| settings.files = Precompressed::Static),
        ("off", |settings| settings.files = Precompressed::Off),
    ],
);

/// Compresses nothing.
pub(super) fn switch_off(settings: &mut CompressionSettings) {
    settings.encodings.clear();
}

/// The settings that `[site.compression]` starts from. If compression is off for the server, the section switches it on again.
pub(super) fn for_site(server: &CompressionSettings) -> CompressionSettings {
    let mut settings = server.clone();
    if settings.encodings.is_empty() {
        settings.encodings = Encoding::ALL.to_vec();
    }
    settings
}

fn read_encodings(names: Vec<At<String>>, written: &Written<'_>) -> Result<Vec<Encoding>, String> {
    if names.is_empty() {
        return Err("an empty list compresses nothing: write compression = false for that".to_owned());
    }
    let mut seen = Vec::new();
    Ok(written.each(names, |name, _| {
        let mistake = match name.parse() {
            Ok(encoding) if seen.contains(&encoding) => "is listed twice: remove one",
            Ok(encoding) => {
                seen.push(encoding);
                return Ok(encoding);
            }
            Err(message) => message,
        };
        Err(format!("encodings: \"{}\": {mistake}", name.escape_debug()))
    }))
}

fn read_types(types: Vec<At<String>>, written: &Written<'_>) -> Vec<String> {
    written.each(types, |kind, _| match is_pattern(kind) {
        true => Ok(kind.to_ascii_lowercase()),
        false => Err(format!(
            "types: \"{}\": is not a media type without parameters, as in \"text/html\", \"text/*\" or \"application/*+json\"",
            kind.escape_debug()
        )),
    })
}

/// Whether a text is `type/subtype` with one `*` at most, or `*/*`.
fn is_pattern(text: &str) -> bool {
    if text == "*/*" {
        return true;
    }
    // A star is a token character (RFC 9110 §5.6.2).
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
        let errors = read(text).expect_err("a mistake");
        errors.to_string()
    }

    #[test]
    fn a_site_overrides_the_server() {
        let settings = read(
            "[compression]\nencodings = ['zstd', 'br']\nleast_size = 100\n[[site]]\nhosts = ['a']\nroot = 'a'\n\
             [site.compression]\nfiles = 'off'\n[[site]]\nhosts = ['b']\nroot = 'b'\ncompression = false\n\
             [[site]]\nroot = 'c'\ncompression = { types = ['TEXT/*'], encodings = ['gzip'] }",
        )
        .expect("a valid configuration");
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
    fn the_guide_lists_every_type_that_is_compressed() {
        let guide = include_str!("../../../docs/guides/compression.md");
        for kind in CompressionSettings::default().types {
            assert!(guide.contains(&format!("`{kind}`")), "{kind}");
        }
    }

    #[test]
    fn a_site_can_switch_compression_on_again() {
        let settings = read(
            "compression = false\n[[site]]\nhosts = ['a']\nroot = 'a'\n\
             [[site]]\nroot = 'b'\ncompression = { files = 'stored' }",
        )
        .expect("a valid configuration");
        let [a, b] = [0, 1].map(|index: usize| &settings.sites[index].compression);
        assert_eq!((&a.encodings[..], &b.encodings[..]), (&[][..], &Encoding::ALL[..]));
        assert_eq!(b.files, Precompressed::Static);
    }

    #[test]
    fn mistakes_are_reported_with_a_hint() {
        let site = "[[site]]\nroot = 'a'\n";
        for (keys, message) in [
            (
                "compression = { encodings = ['gzip', 'deflate'] }",
                "encodings: \"deflate\": must be \"br\", \"zstd\" or \"gzip\"",
            ),
            (
                "compression = { encodings = ['br', 'br'] }",
                "encodings: \"br\": is listed twice: remove one",
            ),
            (
                "compression = { encodings = [] }",
                "encodings = []: an empty list compresses nothing: write compression = false for that",
            ),
            (
                "compression = { types = ['text'] }",
                "types: \"text\": is not a media type without parameters, as in \"text/html\", \"text/*\" or \"application/*+json\"",
            ),
            (
                "compression = { types = ['a/*b*'] }",
                "types: \"a/*b*\": is not a media type without parameters, as in \"text/html\", \"text/*\" or \"application/*+json\"",
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
                "compress = true: a redirect is not compressed: remove this",
            ),
        ] {
            assert_eq!(mistake(&format!("{site}{keys}")), format!("sluice.toml:3: {message}"));
        }
        let shown = mistake(&format!(
            "compression = false\n{site}route = [{{ path = '/a/*', files = {{ directory = 'a' }}, compress = true }}]"
        ));
        let message = "compression is off here: remove compression = false, or list some encodings";
        assert_eq!(shown, format!("sluice.toml:4: compress = true: {message}"));
    }
}
