//! Content codings: the forms in which bytes are sent so that they are fewer (RFC 9110 §8.4.1).
//!
//! Here: what they are called, by clients, by files and in settings. Not here: which of them a client takes
//! (`write::accept_encoding`), and making them (`write::encode`).

pub mod accept;
pub mod body;
pub mod encoder;

use std::fmt;
use std::str::FromStr;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
    /// Gzip (RFC 1952).
    Gzip,
}

impl Encoding {
    /// All of them, in the order in which the server prefers them: by how small they make text.
    pub const ALL: [Encoding; 3] = [Encoding::Brotli, Encoding::Zstd, Encoding::Gzip];

    /// Its name in Content-Encoding, and in settings.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Zstd => "zstd",
            Encoding::Gzip => "gzip",
        }
    }

    /// What the name of a file stored in this form ends with, beside the name of the file itself.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Encoding::Brotli => ".br",
            Encoding::Zstd => ".zst",
            Encoding::Gzip => ".gz",
        }
    }

    /// What a client means by a name, in letters of any case; `x-gzip` is an old one (RFC 9110 §8.4.1.3).
    pub fn named(name: &str) -> Option<Encoding> {
        if name.eq_ignore_ascii_case("x-gzip") {
            return Some(Encoding::Gzip);
        }
        let mut all = Encoding::ALL.into_iter();
        all.find(|encoding| name.eq_ignore_ascii_case(encoding.token()))
    }

    /// Whether a file of this name is in one of the forms already.
    pub fn is_of_name(name: &str) -> bool {
        Encoding::ALL.iter().any(|encoding| name.ends_with(encoding.suffix()))
    }

    /// Its place in a table of one line for each.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.token())
    }
}

impl FromStr for Encoding {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Encoding, Self::Err> {
        let mut all = Encoding::ALL.into_iter();
        all.find(|encoding| encoding.token() == name)
            .ok_or("must be \"br\", \"zstd\" or \"gzip\"")
    }
}
