//! `[server.watch]`: what WATCH does not show.

use sluice_settings::WatchSettings;

use super::key::{Key, Section, set};

pub(super) static SERVER_WATCH: Section<WatchSettings> = Section {
    title: "[server.watch]",
    keys: &[
        Key::texts("masked_fields", |watch, texts, written| {
            let names = written.each(texts, |text, _| match text.chars().any(char::is_alphanumeric) {
                true => Ok(text.to_owned()),
                false => Err("masked_fields: needs names, as in \"password\"".to_owned()),
            });
            set(&mut watch.masked_fields, names)
        }),
        Key::flag("unmasked", |watch, is_unmasked| watch.is_unmasked = is_unmasked),
    ],
};
