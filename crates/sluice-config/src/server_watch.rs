//! `[server.watch]`: what WATCH does not show.

use sluice_settings::WatchSettings;

use super::description::Fallback::{Value, Words};
use super::key::{Key, Kind, Section};

pub(super) static SERVER_WATCH: Section<WatchSettings> = Section {
    title: "[server.watch]",
    text: "Secrets in requests and responses, which WATCH (`sluice watch`) does not show: it shows their length instead. Cookies and the values of \
           Authorization are always secret.",
    keys: &[
        Key {
            name: "masked_fields",
            kind: Kind::Texts(|watch, texts, written| {
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
            default: Words(
                "`[\"password\", \"passwd\", \"passphrase\", \"passcode\", \"pwd\", \"token\", \"secret\", \"api_key\", \"private_key\", \
                 \"access_key\", \"credential\", \"otp\", \"session\", \"signature\"]`",
            ),
            text: "A value is secret if its name contains one of these words. Upper and lower case, and characters other than letters \
                   and digits, do not matter: `password` matches `New-Password` and `user[password]`, too. This applies to fields of \
                   forms and their parts, \
                   names of JSON and XML, parameters of queries, variables of scripts, and fields of heads. The words `pass` and `sid` between \
                   punctuation and the parameter `code` are always secret, too.",
            example: "[\"password\", \"pin_code\"]",
        },
        Key {
            name: "unmasked",
            kind: Kind::Flag(|watch, is_unmasked| watch.is_unmasked = is_unmasked),
            default: Value("false"),
            text: "Whether WATCH shows everything, passwords and cookies too. Users who may watch can then act as any user of the site.",
            example: "true",
        },
    ],
};
