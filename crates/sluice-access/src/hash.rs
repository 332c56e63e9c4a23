//! The hash of a password as a line of a users file holds it: which kinds are accepted, what one costs, and the comparison.
//!
//! | begins with | what | |
//! |---|---|---|
//! | `$argon2id$` | argon2id (RFC 9106) | what `sluice passwd` makes |
//! | `$2y$`, `$2b$`, `$2a$` | bcrypt | `htpasswd -B` |
//! | `$5$`, `$6$` | SHA-crypt | `htpasswd -2`, `-5`, `mkpasswd` |
//! | `$apr1$` | 1000 rounds of MD5 | `htpasswd -m`; weak |
//! | `{SHA}` | SHA-1 without salt | `htpasswd -s`; weak |
//!
//! Other kinds are refused with what to do instead. So are hashes that take seconds of a thread: a client causes one calculation per wrong password.

use argon2::Argon2;
use argon2::password_hash::phc;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::ShaCrypt;

use crate::apr1;

/// Bytes of a password. More are never right: without a bound, SHA-crypt would take time in proportion to the square of the length.
pub const PASSWORD_BYTES_MAX: usize = 512;

/// The costs that are accepted: about a second of one processor.
const BCRYPT_COST_MAX: u32 = 14;
const SHA_ROUNDS_MAX: u32 = 1_000_000;
const ARGON2_KIB_MAX: u32 = 128 * 1024;
const ARGON2_PASSES_MAX: u32 = 16;
const ARGON2_LANES_MAX: u32 = 16;

/// The rounds of a hash of SHA-crypt that does not name them.
const SHA_ROUNDS_USUAL: u64 = 5000;

/// The hash of a password.
#[derive(Clone, Debug)]
pub struct StoredHash {
    pub(crate) kind: Kind,
    /// How long it takes, compared with others of its kind.
    pub(crate) cost: u64,
    /// The hash as it was written.
    text: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Argon2,
    Bcrypt,
    ShaCrypt,
    Apr1,
    Sha1,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [Kind::Argon2, Kind::Bcrypt, Kind::ShaCrypt, Kind::Apr1, Kind::Sha1];
}

impl StoredHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// What is wrong with it and what to do instead, as the end of a sentence that begins with the user.
    pub fn parse(text: &str) -> Result<StoredHash, String> {
        let kind = kind_of(text)?;
        let cost = match kind {
            Kind::Argon2 => check_argon2(text)?,
            Kind::Bcrypt => check_bcrypt(text)?,
            Kind::ShaCrypt => check_sha_crypt(text)?,
            Kind::Apr1 => check(apr1::is_valid(text), text)?,
            Kind::Sha1 => check(sha1_of(text).is_some(), text)?,
        };
        Ok(StoredHash { kind, cost, text: text.into() })
    }

    /// Why the hash is weak. `None` if it is not.
    #[must_use]
    pub fn weakness(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Apr1 => Some("$apr1$ is MD5, of which one graphics card tries millions of passwords a second"),
            Kind::Sha1 => {
                Some("{SHA} is SHA-1 without salt, of which one graphics card tries billions of passwords a second")
            }
            Kind::Argon2 | Kind::Bcrypt | Kind::ShaCrypt => None,
        }
    }

    /// Whether this is the hash of `password`. Takes up to a second, and the same time for a right and a wrong password.
    #[must_use]
    pub fn verify(&self, password: &[u8]) -> bool {
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        match self.kind {
            Kind::Argon2 => phc::PasswordHash::new(&self.text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            // bcrypt ends at a NUL in other programs.
            Kind::Bcrypt => {
                let is_same = bcrypt::verify(password, &self.text).unwrap_or(false);
                is_same && !password.contains(&0)
            }
            Kind::ShaCrypt => sha_crypt::PasswordHashRef::new(&self.text)
                .is_ok_and(|hash| ShaCrypt::default().verify_password(password, hash).is_ok()),
            Kind::Apr1 => apr1::verify(password, &self.text),
            Kind::Sha1 => sha1_of(&self.text).is_some_and(|expected| {
                verify_slices_are_equal(digest(&SHA1_FOR_LEGACY_USE_ONLY, password).as_ref(), &expected).is_ok()
            }),
        }
    }
}

/// Hashes a new password with argon2id, in 19 MiB and two passes (the least that OWASP recommends).
///
/// # Errors
/// One line: the password is empty or too long, or there are no random bytes.
pub fn hash_new(password: &[u8]) -> Result<String, String> {
    if password.is_empty() {
        return Err("the password is empty".to_owned());
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(format!(
            "a password has at most {PASSWORD_BYTES_MAX} bytes, and this one has {}",
            password.len()
        ));
    }
    let hash: Result<phc::PasswordHash, _> = Argon2::default().hash_password(password);
    let hash = hash.map_err(|error| format!("the password cannot be hashed: {error}"))?;
    Ok(hash.to_string())
}

fn kind_of(text: &str) -> Result<Kind, String> {
    const KINDS: [(&str, Kind); 9] = [
        ("$argon2id$", Kind::Argon2),
        ("$argon2i$", Kind::Argon2),
        ("$2y$", Kind::Bcrypt),
        ("$2b$", Kind::Bcrypt),
        ("$2a$", Kind::Bcrypt),
        ("$5$", Kind::ShaCrypt),
        ("$6$", Kind::ShaCrypt),
        ("$apr1$", Kind::Apr1),
        ("{SHA}", Kind::Sha1),
    ];
    if let Some((_, kind)) = KINDS.into_iter().find(|(begin, _)| text.starts_with(begin)) {
        return Ok(kind);
    }
    Err(match text {
        "" => "has no password: remove the line, or set one".to_owned(),
        _ if text.starts_with("$y$") || text.starts_with("$7$") => {
            "has a hash of yescrypt or scrypt, which are not supported: set the password again".to_owned()
        }
        _ if text.starts_with("$1$") => {
            "has a hash of MD5 crypt, which is not supported: set the password again".to_owned()
        }
        _ if text.starts_with(['$', '{']) => {
            "has a hash of an unknown kind: argon2id, bcrypt, $5$ and $6$ are supported; set the password again"
                .to_owned()
        }
        _ if is_des(text) => {
            "has a hash of DES crypt, of which only the first 8 characters of a password count: set the password again"
                .to_owned()
        }
        _ => "has a password in clear text, or a hash of an unknown kind: set the password again".to_owned(),
    })
}

/// Two characters of salt and eleven of a hash (crypt(5)).
fn is_des(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
    text.len() == 13 && text.bytes().all(is_digit)
}

/// The cost of a kind of which all hashes cost the same.
fn check(is_valid: bool, text: &str) -> Result<u64, String> {
    let kind = text.split_at_checked(6).map_or(text, |(begin, _)| begin);
    match is_valid {
        true => Ok(1),
        false => Err(format!("has a damaged hash ({kind}…): set the password again")),
    }
}

fn costs_too_much(what: &str, most: u32) -> String {
    format!("has a hash that takes too long: {what} may be at most {most}; set the password again")
}

/// The cost: memory and passes.
fn check_argon2(text: &str) -> Result<u64, String> {
    let parsed = phc::PasswordHash::new(text);
    let complete = parsed.ok().filter(|hash| hash.salt.is_some() && hash.hash.is_some());
    let Some(params) = complete.and_then(|hash| argon2::Params::try_from(&hash).ok()) else {
        return check(false, text);
    };
    for (what, is, most) in [
        ("m of argon2", params.m_cost(), ARGON2_KIB_MAX),
        ("t of argon2", params.t_cost(), ARGON2_PASSES_MAX),
        ("p of argon2", params.p_cost(), ARGON2_LANES_MAX),
    ] {
        if is > most {
            return Err(costs_too_much(what, most));
        }
    }
    Ok(u64::from(params.m_cost()) * u64::from(params.t_cost()))
}

fn check_bcrypt(text: &str) -> Result<u64, String> {
    let parts = text.parse::<bcrypt::HashParts>();
    let Ok(parts) = parts else { return check(false, text) };
    match parts.get_cost() {
        cost if cost > BCRYPT_COST_MAX => Err(costs_too_much("the cost of bcrypt", BCRYPT_COST_MAX)),
        cost => Ok(u64::from(cost)),
    }
}

/// The cost: rounds, of SHA-256 or SHA-512, which take about the same time.
fn check_sha_crypt(text: &str) -> Result<u64, String> {
    let mut cost = SHA_ROUNDS_USUAL;
    let mut fields = text[3..].split('$');
    let mut salt = fields.next().unwrap_or_default();
    if let Some(rounds) = salt.strip_prefix("rounds=") {
        let rounds = rounds.parse::<u32>().unwrap_or_default();
        if rounds > SHA_ROUNDS_MAX {
            return Err(costs_too_much("rounds of SHA-crypt", SHA_ROUNDS_MAX));
        }
        check(rounds >= 1000, text)?;
        cost = u64::from(rounds);
        salt = fields.next().unwrap_or_default();
    }
    let (hash, rest) = (fields.next().unwrap_or_default(), fields.next());
    let characters = if text.starts_with("$5$") { 43 } else { 86 };
    let is_valid = salt.len() <= 16 && hash.len() == characters && rest.is_none();
    check(is_valid && sha_crypt::PasswordHashRef::new(text).is_ok(), text).map(|_| cost)
}

/// The 20 bytes of `{SHA}…`.
fn sha1_of(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text.strip_prefix("{SHA}")?).ok()?;
    (bytes.len() == 20).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_other_programs_are_verified() {
        for (text, password) in HASHES {
            let hash = StoredHash::parse(text).unwrap();
            assert!(hash.verify(password.as_bytes()), "{text}");
            assert!(!hash.verify(b"wrong"), "{text}");
            assert!(!hash.verify(b""), "{text}");
        }
    }

    /// Hashes of `openssl passwd`, Perl's crypt and `htpasswd`, with their passwords.
    const HASHES: [(&str, &str); 8] = [
        ("$5$saltsalt$yrhPKxCqiWcCE9h0g86j6Ugz7SDFdFm.BjU.d8RaQnC", "open sesame"),
        (
            "$6$saltsalt$e/5XKibXPLqVcfjpD.ouauaJrAOL5V0uo80Lt7n7EbRdRiCx3HbQ90yjOHr.G0T.mx79PEMRy8nmtr0qSYhQp1",
            "open sesame",
        ),
        (
            "$6$rounds=1000$saltsalt$/IiX/CoEcxCZ9SksEXnbjfCT1LGvD4z5OpJkaFYl/T37OAwuKZ8I8BixDhruhPLkw6lS7dw/6wQWgQnGo7lLg/",
            "open sesame",
        ),
        ("$apr1$saltsalt$HIDXe7D36X22w1CH4M1cQ.", "open sesame"),
        (
            "$apr1$saltsalt$kZB5.nqAdweEaXSAjLXvD1",
            "a password of more than 16 bytes",
        ),
        ("{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=", "open sesame"),
        (
            "$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW",
            "open sesame",
        ),
        (
            "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW",
            "open sesame",
        ),
    ];

    #[test]
    fn a_new_hash_is_of_its_password_alone() {
        let text = hash_new(b"open sesame").unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        let hash = StoredHash::parse(&text).unwrap();
        assert!(hash.verify(b"open sesame") && !hash.verify(b"open sesam"));
        assert_eq!(hash.weakness(), None);
        assert!(hash_new(b"").is_err() && hash_new(&[b'a'; PASSWORD_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn other_kinds_are_refused_with_what_to_do() {
        for (text, expected) in [
            ("", "has no password"),
            ("secret", "clear text"),
            ("rqXexS6ZhobKA", "DES crypt"),
            ("$1$salt$qJH7.N4xYta3aEG/dfqo/0", "MD5 crypt"),
            ("$y$j9T$abc$def", "yescrypt"),
            ("$unknown$x", "unknown kind"),
            ("$2y$05$short", "damaged"),
            (
                "$2y$15$abcdefghijklmnopqrstuuE1kPmYT1Hk1Wn8Zx3oQh6a0rSbNoxkq",
                "at most 14",
            ),
            ("$6$rounds=9000000$salt$x", "at most 1000000"),
            ("$6$salt$short", "damaged"),
            (
                "$argon2id$v=19$m=1000000,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
                "at most 131072",
            ),
            ("$argon2id$nonsense", "damaged"),
            ("$apr1$salt$short", "damaged"),
            ("{SHA}short", "damaged"),
        ] {
            let error = StoredHash::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(\\$(5|6|apr1|2y|argon2id)\\$|\\{SHA\\})?.{0,80}", password in ".*") {
            if let Ok(hash) = StoredHash::parse(&text) {
                let _ = hash.verify(password.as_bytes());
            }
        }
    }
}
