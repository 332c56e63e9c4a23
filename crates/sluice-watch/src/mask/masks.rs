//! Masks: the names of secret values in fields of heads, forms, queries and JSON.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::secrets::Secrets;

/// A name that contains one of these words is a secret's, whatever the configuration says: RFC 9110 §11.6.2 and §11.7.2, RFC 6265 §4.
const HEAD_WORDS: [&str; 2] = ["authorization", "cookie"];

/// A name with one of these between punctuation is a secret's, too: `DB_PASS`, `user[pass]`. Within other words they mean something else.
const PART_WORDS: [&str; 2] = ["pass", "sid"];

/// A parameter with one of these names is a secret, too: RFC 6749 §4.1.2. In JSON `code` is more often the code of an error.
const PARAMETERS: [&str; 1] = ["code"];

/// The schemes of Authorization that are shown beside the length of what follows (RFC 7617, RFC 6750, RFC 7616, RFC 4559).
const SCHEMES: [&str; 4] = ["Basic", "Bearer", "Digest", "Negotiate"];

/// Shorter parts of a field's value are not searched elsewhere.
const PART_BYTES_MIN: usize = 6;

/// The bytes of a name that are compared at most.
pub(super) const NAME_BYTES_MAX: usize = 256;

/// Which values must not be shown. A clone shares the list.
#[derive(Clone, Debug)]
pub struct Masks(
    /// `None`: nothing is masked.
    Option<Arc<Words>>,
);

/// The words of secret names, `HEAD_WORDS` too.
#[derive(Debug)]
struct Words {
    search: AhoCorasick,
    bytes_min: usize,
}

impl Words {
    fn new(mut words: Vec<String>) -> Words {
        words.extend(HEAD_WORDS.map(str::to_owned));
        let builder = &mut AhoCorasick::builder();
        let built = builder.kind(Some(AhoCorasickKind::DFA)).prefilter(false).build(&words);
        Words {
            search: built.expect("the words of a configuration have far fewer than 2^31 states"),
            bytes_min: words.iter().map(String::len).min().unwrap_or_default(),
        }
    }

    fn are_in(&self, name: &[u8]) -> bool {
        name.len() >= self.bytes_min && self.search.is_match(name)
    }
}

impl Masks {
    /// The names of secrets unless the configuration sets others.
    pub const USUAL_WORDS: [&str; 14] = [
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "pwd",
        "token",
        "secret",
        "api_key",
        "private_key",
        "access_key",
        "credential",
        "otp",
        "session",
        "signature",
    ];

    /// Masks values whose names contain one of these words; case and punctuation do not matter.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Masks {
        let words = words.into_iter().map(|word| plain(&decoded(word.as_bytes())));
        Masks(Some(Arc::new(Words::new(
            words.filter(|word| !word.is_empty()).collect(),
        ))))
    }

    /// Masks nothing.
    #[must_use]
    pub fn off() -> Masks {
        Masks(None)
    }

    /// Whether anything is masked.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether values of this name are masked. The name may be percent-encoded.
    #[must_use]
    pub fn is_secret(&self, name: &[u8]) -> bool {
        let Some(words) = &self.0 else { return false };
        let name = decoded(&name[..name.len().min(NAME_BYTES_MAX)]);
        if has_part(&name) {
            return true;
        }
        if !name.is_ascii() {
            return words.are_in(plain(&name).as_bytes());
        }
        // Most names: no allocation.
        let (mut letters, mut length) = ([0; NAME_BYTES_MAX], 0);
        for byte in name.iter().filter(|byte| byte.is_ascii_alphanumeric()) {
            letters[length] = byte.to_ascii_lowercase();
            length += 1;
        }
        words.are_in(&letters[..length])
    }

    /// Whether the values of this name are masked in a query, a form or a text.
    #[must_use]
    pub fn is_secret_parameter(&self, name: &[u8]) -> bool {
        self.is_secret(name) || (self.is_on() && PARAMETERS.iter().any(|known| name == known.as_bytes()))
    }

    /// The value of a field of a head, as it is shown.
    #[must_use]
    pub fn field(&self, name: &str, value: &[u8]) -> String {
        let shown = String::from_utf8_lossy(value);
        if !self.is_secret(name.as_bytes()) {
            return self.text(&shown);
        }
        match shown.split_once(' ') {
            Some((scheme, rest)) if is_scheme(scheme.as_bytes()) => {
                format!("{scheme} {}", hidden(rest.len()))
            }
            _ => hidden(value.len()),
        }
    }

    /// A text in which there may be `name=value`: a target, a query, a line of a log.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        if !self.is_on() {
            return text.to_owned();
        }
        let text = &without_passwords(text);
        let mut shown = String::with_capacity(text.len());
        let mut at = 0;
        for value in self.values_in(text) {
            shown.push_str(&text[at..value.start]);
            shown.push_str(&hidden(value.len()));
            at = value.end;
        }
        shown.push_str(&text[at..]);
        shown
    }

    /// Where the values of secret names stand in a text.
    fn values_in(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(equals) = text[from..].find('=').map(|at| from + at) {
            let before = &text[from..equals];
            let name = before.rsplit(|letter| !may_be_in_name(letter)).next();
            let name = name.unwrap_or_default();
            from = equals + 1;
            if self.is_secret_parameter(name.as_bytes()) {
                let value = &text[from..];
                let value = &value[..value.find(ends_value).unwrap_or(value.len())];
                // In a message it stands behind a target.
                let value = value.strip_suffix(':').unwrap_or(value);
                let end = from + value.len();
                found.extend((end > from).then_some(from..end));
                from = end;
            }
        }
        found
    }

    /// The secrets in the head of a request, to mask them wherever they stand: a response may repeat them. `fields` are names and values.
    pub fn secrets_of<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        query: Option<&'a str>,
    ) -> Secrets {
        // The values of fields last: what they consist of matters more, and the number is bounded.
        let (mut secrets, mut values): (Vec<Vec<u8>>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        let mut texts: Vec<String> = query.map(str::to_owned).into_iter().collect();
        for (name, value) in fields {
            if !self.is_secret(name.as_bytes()) {
                texts.push(String::from_utf8_lossy(value).into_owned());
                continue;
            }
            values.push(value);
            // `Basic TOKEN`, `a=VALUE; b=VALUE`.
            for part in value.split(|byte| matches!(byte, b' ' | b';' | b',')) {
                let after_name = part.splitn(2, |byte| *byte == b'=').nth(1);
                let is_long = |part: &&[u8]| part.len() >= PART_BYTES_MIN && !is_scheme(part);
                let parts = [Some(part), after_name].into_iter().flatten();
                secrets.extend(parts.filter(is_long).map(<[u8]>::to_vec));
            }
        }
        for text in &texts {
            for value in self.values_in(text) {
                let value = &text[value];
                secrets.push(value.as_bytes().to_vec());
                secrets.push(decoded(value.replace('+', " ").as_bytes()).into_owned());
            }
        }
        Secrets::new(secrets.iter().map(Vec::as_slice).chain(values))
    }
}

impl Default for Masks {
    fn default() -> Masks {
        static USUAL: LazyLock<Masks> = LazyLock::new(|| Masks::new(Masks::USUAL_WORDS));
        USUAL.clone()
    }
}

/// The text in place of a secret of this many bytes.
#[must_use]
pub fn hidden(bytes: usize) -> String {
    format!("…({bytes} bytes)")
}

fn is_scheme(word: &[u8]) -> bool {
    SCHEMES
        .iter()
        .any(|scheme| scheme.as_bytes().eq_ignore_ascii_case(word))
}

/// A letter of a name in a text; `[` is of names such as `user[password]`.
pub(super) fn may_be_in_name(letter: char) -> bool {
    letter.is_alphanumeric() || NAME_PUNCTUATION.contains(letter)
}

/// The bytes that may be in a name: those of `may_be_in_name`, and all of a letter beyond ASCII.
pub(super) const NAME_BYTES: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte: u8 = 0;
    while byte.is_ascii() {
        table[byte as usize] = byte.is_ascii_alphanumeric() || is_in(NAME_PUNCTUATION, byte);
        byte += 1;
    }
    table
};

const NAME_PUNCTUATION: &str = "_-.%+[]*~$!()";

const fn is_in(text: &str, byte: u8) -> bool {
    let mut at = 0;
    while at < text.len() {
        if text.as_bytes()[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

/// A letter that a value in a query cannot have (RFC 3986 §3.4), or that separates it from the next one.
fn ends_value(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || "&\"<>#".contains(letter)
}

/// A text whose URLs name no user (RFC 3986 §3.2.1).
fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|letter: char| letter.is_whitespace() || "/?#\"<>".contains(letter));
        let (authority, after) = after.split_at(end.unwrap_or(after.len()));
        shown.push_str(before);
        shown.push_str("://");
        match authority.rsplit_once('@') {
            Some((user, host)) => drop(write!(shown, "{}@{host}", hidden(user.len()))),
            None => shown.push_str(authority),
        }
        rest = after;
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Whether one of `PART_WORDS` stands between the punctuation of a name.
fn has_part(name: &[u8]) -> bool {
    let is_part = |part: &[u8]| PART_WORDS.iter().any(|word| part.eq_ignore_ascii_case(word.as_bytes()));
    name.split(|byte| !byte.is_ascii_alphanumeric()).any(is_part)
}

/// The letters and digits of a decoded name, in lower case. Bytes that are not UTF-8 are none.
fn plain(name: &[u8]) -> String {
    let mut plain = String::with_capacity(name.len());
    for letter in name.utf8_chunks().flat_map(|chunk| chunk.valid().chars()) {
        if letter.is_ascii_alphanumeric() {
            plain.push(letter.to_ascii_lowercase());
        } else if !letter.is_ascii() && letter.is_alphanumeric() {
            plain.extend(letter.to_lowercase());
        }
    }
    plain
}

/// The bytes that are percent-encoded (RFC 3986 §2.1).
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    percent_encoding::percent_decode(text).into()
}

/// Adds bytes to a name or line that is compared, up to a length.
pub(super) fn extend(name: &mut Vec<u8>, bytes: &[u8], bytes_max: usize) {
    let room = bytes_max.saturating_sub(name.len());
    name.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

/// Masks the bytes that another mask has masked in a copy. In a loop without branches, which the compiler turns into one over many bytes at once.
pub(super) fn mask_as_in(bytes: &mut [u8], copy: &[u8]) {
    for (byte, other) in bytes.iter_mut().zip(copy) {
        *byte = if *other == b'*' { b'*' } else { *byte };
    }
}

/// Masks the bytes for which `is_masked` says so, which sees each once, in their order.
pub(super) fn mask_bytes(bytes: &mut [u8], mut is_masked: impl FnMut(u8) -> bool) {
    for byte in bytes {
        if is_masked(*byte) {
            *byte = b'*';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_secret_if_a_part_of_it_is_one_of_the_words() {
        let masks = Masks::default();
        for name in [
            "password",
            "Password2",
            "new-password",
            "user[password]",
            "pass%77ord",
            "csrf_token",
            "api-key",
            "X-Api-Key",
            "Set-Cookie",
            "HTTP_AUTHORIZATION",
        ] {
            assert!(masks.is_secret(name.as_bytes()), "{name}");
        }
        for name in ["DB_PASS", "user[pass]", "sid", "PHPSESSION", "X-Amz-Signature"] {
            assert!(masks.is_secret(name.as_bytes()), "{name}");
        }
        assert!(masks.is_secret_parameter(b"code") && !masks.is_secret_parameter(b"status_code"));
        for name in ["", "user", "compass", "passenger", "inside", "code", "key", "%zz", "%"] {
            assert!(!masks.is_secret(name.as_bytes()), "{name}");
        }
        let own = Masks::new(["Geheim-Wort", "--"]);
        assert!(own.is_secret(b"geheimwort") && !own.is_secret(b"password") && own.is_secret(b"cookie"));
        assert!(!Masks::off().is_secret(b"password"));
    }

    #[test]
    fn values_in_targets_queries_and_lines_of_logs_are_hidden() {
        let masks = Masks::default();
        for (text, shown) in [
            (
                "/a?user=ann&password=s3;c%20ret&x=1",
                "/a?user=ann&password=…(10 bytes)&x=1",
            ),
            ("/a?x=1;token=abc#f", "/a?x=1;token=…(3 bytes)#f"),
            ("token=", "token="),
            (
                "\"GET /?pwd=a HTTP/1.1\" 200 \"?pwd=b\"",
                "\"GET /?pwd=…(1 bytes) HTTP/1.1\" 200 \"?pwd=…(1 bytes)\"",
            ),
            ("GET /?pwd=abc: not there", "GET /?pwd=…(3 bytes): not there"),
            (
                "http://u:p@a.test/b@c ftp://a.test",
                "http://…(3 bytes)@a.test/b@c ftp://a.test",
            ),
            ("a=b=c", "a=b=c"),
            ("password", "password"),
        ] {
            assert_eq!(masks.text(text), shown);
        }
        assert_eq!(Masks::off().text("token=a"), "token=a");
    }

    #[test]
    fn the_secrets_of_a_request_are_known_wherever_they_stand() {
        let fields = [
            ("authorization", b"Bearer dXNlcjpw".as_slice()),
            ("cookie", b"id=abcdefgh; x=y"),
            ("host", b"a.test.example"),
        ];
        let secrets = Masks::default().secrets_of(fields, Some("user=somebody&password=two+w%6frds"));
        let shown = secrets.masked("Bearer dXNlcjpw abcdefgh a.test.example somebody two words two+w%6frds".into());
        assert_eq!(
            shown,
            "*************** ******** a.test.example somebody ********* ***********"
        );
        assert_eq!(
            format!("{:?}", Masks::off().secrets_of(fields, Some("password=abcd"))),
            "Secrets(0)"
        );
    }

    #[test]
    fn of_a_field_the_scheme_is_shown_and_nothing_else() {
        let masks = Masks::default();
        assert_eq!(masks.field("Authorization", b"Basic YTpi"), "Basic …(4 bytes)");
        assert_eq!(masks.field("authorization", b"very secret"), "…(11 bytes)");
        assert_eq!(masks.field("Cookie", b"a=b; c=d"), "…(8 bytes)");
        assert_eq!(
            masks.field("Referer", b"https://a.test/?token=abc"),
            "https://a.test/?token=…(3 bytes)"
        );
        assert_eq!(masks.field("Host", b"a.test"), "a.test");
        assert_eq!(Masks::off().field("Cookie", b"a=b"), "a=b");
    }
}
