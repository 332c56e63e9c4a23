//! `[server.watch]`: what WATCH does not show.

use sluice_settings::WatchSettings;

use super::key::{Key, Section};

pub(super) static SERVER_WATCH: Section<WatchSettings> = Section {
    title: "[server.watch]",
    keys: &[
        Key::texts("masked_fields", |watch, texts, written| {
            let document = written.document();
            for text in &texts {
                if !text.value.chars().any(char::is_alphanumeric) {
                    let message = "masked_fields: needs names, as in \"password\"";
                    document.report(text.line, message.to_owned());
                }
            }
            watch.masked_fields = Some(texts.into_iter().map(|text| text.value).collect());
            Ok(())
        }),
        Key::flag("unmasked", |watch, is_unmasked| watch.is_unmasked = is_unmasked),
    ],
};
