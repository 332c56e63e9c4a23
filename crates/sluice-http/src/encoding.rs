//! Content codings: the compressions of a representation (RFC 9110 §8.4.1).

pub mod accept;
pub mod body;
pub mod encoder;
pub mod reply;

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
    /// All codings in the server's order of preference: by how small they make text.
    pub const ALL: [Encoding; 3] = [Encoding::Brotli, Encoding::Zstd, Encoding::Gzip];

    /// The name in Content-Encoding and in settings.
    pub fn token(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Zstd => "zstd",
            Encoding::Gzip => "gzip",
        }
    }

    /// The suffix of a precompressed file: `page.html.gz` beside `page.html`.
    pub fn suffix(self) -> &'static str {
        match self {
            Encoding::Brotli => ".br",
            Encoding::Zstd => ".zst",
            Encoding::Gzip => ".gz",
        }
    }

    /// The coding of a name in a request, in any case; `x-gzip` is an old name of gzip (RFC 9110 §8.4.1.3).
    pub fn named(name: &str) -> Option<Encoding> {
        if name.eq_ignore_ascii_case("x-gzip") {
            return Some(Encoding::Gzip);
        }
        let mut all = Encoding::ALL.into_iter();
        all.find(|encoding| name.eq_ignore_ascii_case(encoding.token()))
    }

    /// Whether a file of this name is compressed already.
    pub fn is_of_name(name: &str) -> bool {
        Encoding::ALL.iter().any(|encoding| name.ends_with(encoding.suffix()))
    }

    /// The position in `ALL`, for arrays with one element for each coding.
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
