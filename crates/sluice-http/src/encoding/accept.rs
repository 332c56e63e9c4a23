//! Which content codings a client accepts: its field Accept-Encoding (RFC 9110 §12.5.3).

use std::cmp::Reverse;

use http::{HeaderMap, header};

use crate::accept::{QValue, lines, quality};
use crate::encoding::Encoding;

/// The codings that a client accepts, the preferred one first, with their quality values.
pub type Ranked = [Option<(Encoding, QValue)>; Encoding::ALL.len()];

/// The quality values that a client gives to codings; `None` for a coding that it does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    named: [Option<QValue>; Encoding::ALL.len()],
    /// `*`: all codings that are not named.
    others: Option<QValue>,
    /// No coding.
    identity: Option<QValue>,
}

impl Accepted {
    /// Reads the field. The first entry of a name counts; those that are invalid or beyond the limit are ignored.
    pub fn read(fields: &HeaderMap) -> Accepted {
        let mut accepted = Accepted::default();
        let entries = lines(fields, header::ACCEPT_ENCODING).flat_map(|line| line.split(','));
        for entry in entries {
            let mut parts = entry.split(';');
            let name = parts.next().unwrap_or_default().trim();
            let Some(entry) = accepted.entry(name) else { continue };
            if entry.is_none() {
                *entry = quality(parts);
            }
        }
        accepted
    }

    /// The entry for a name; `None` for a coding that the server does not know.
    fn entry(&mut self, name: &str) -> Option<&mut Option<QValue>> {
        match Encoding::named(name) {
            Some(encoding) => Some(&mut self.named[encoding.index()]),
            None if name == "*" => Some(&mut self.others),
            None if name.eq_ignore_ascii_case("identity") => Some(&mut self.identity),
            None => None,
        }
    }

    /// Ranks those of `offered` that the client accepts and prefers at least as much as `identity`; of equals the earlier is first.
    ///
    /// If there are none, there is no coding, even with `identity;q=0`: the client may read it anyway, and 406 helps it less (RFC 9110 §12.4.1, §15.5.7).
    pub fn rank(&self, offered: &[Encoding]) -> Ranked {
        // A client that names a coding and not `identity` wants the coding, whatever its quality value.
        let least = self.identity.or(self.others).unwrap_or(0);
        let mut ranked = Ranked::default();
        if *self == Accepted::default() {
            return ranked;
        }
        for (entry, encoding) in ranked.iter_mut().zip(offered) {
            let quality = self.named[encoding.index()].or(self.others);
            *entry = quality
                .filter(|quality| *quality > 0 && *quality >= least)
                .map(|quality| (*encoding, quality));
        }
        ranked.sort_by_key(|entry| Reverse(entry.map(|(_, quality)| quality)));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::Encoding::{Brotli, Gzip, Zstd};
    use super::*;

    fn ranked(lines: &[&str]) -> Vec<Encoding> {
        let mut fields = HeaderMap::new();
        for line in lines {
            fields.append(header::ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap());
        }
        let ranked = Accepted::read(&fields).rank(&Encoding::ALL);
        ranked.into_iter().flatten().map(|(encoding, _)| encoding).collect()
    }

    #[test]
    fn accepted_codings_are_ranked_by_quality_value_then_by_the_servers_order() {
        for (line, expected) in [
            ("gzip, deflate, br, zstd", &[Brotli, Zstd, Gzip][..]),
            ("gzip, deflate", &[Gzip]),
            ("x-gzip", &[Gzip]),
            ("GZIP;Q=0.5", &[Gzip]),
            ("gzip;q=1.0, br;q=0.9", &[Gzip, Brotli]),
            ("gzip;q=0.001,zstd;q=0.002", &[Zstd, Gzip]),
            ("*", &[Brotli, Zstd, Gzip]),
            ("*;q=0.5, gzip", &[Gzip, Brotli, Zstd]),
            ("*, br;q=0", &[Zstd, Gzip]),
            ("br ; q=0.8 , gzip ; q = 0.9", &[Gzip, Brotli]),
            ("identity, gzip", &[Gzip]),
            ("gzip;q=0, br;q=0.0, zstd", &[Zstd]),
            ("gzip;level=9;q=0.3", &[Gzip]),
            (",, gzip ,,", &[Gzip]),
        ] {
            assert_eq!(ranked(&[line]), expected, "{line}");
        }
    }

    #[test]
    fn refused_codings_and_those_below_identity_are_not_ranked() {
        for line in [
            "",
            "identity",
            "deflate, compress",
            "gzip;q=0",
            "*;q=0",
            "identity;q=0, *;q=0",
            "identity, gzip;q=0.9",
            "gzip;q=2",
            "gzip;q=-1",
            "gzip;q=0.0001",
            "gzip;q=",
            "gzipped",
            "gzip br",
            "gzip;q=0, gzip",
        ] {
            assert_eq!(ranked(&[line]), [], "{line}");
        }
        assert_eq!(ranked(&[]), [], "no field");
        // `*` stands for identity too.
        let mut fields = HeaderMap::new();
        fields.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip;q=0.3, *;q=0.8"));
        assert_eq!(Accepted::read(&fields).rank(&[Gzip]), Ranked::default());
        assert_eq!(ranked(&["gzip;q=0.3, *;q=0.8"]), [Brotli, Zstd]);
        assert_eq!(ranked(&["identity;q=0, gzip;q=0.1, br;q=0"]), [Gzip]);
    }

    #[test]
    fn several_lines_are_one_list_and_entries_beyond_the_limit_are_ignored() {
        assert_eq!(ranked(&["gzip;q=0.5", "br;q=0.4"]), [Gzip, Brotli]);
        let long = format!("gzip, {}br", "deflate;q=0.5, ".repeat(4400));
        assert_eq!(ranked(&[&long]), [Gzip]);
        assert_eq!(ranked(&[&long, "br"]), [Gzip]);
        let one = format!("gzip{}", ";a=b".repeat(16_000));
        assert_eq!(ranked(&[&one]), []);
        let many = vec!["deflate"; 10_000];
        assert_eq!(ranked(&[&many[..], &["gzip"]].concat()), []);
        let mut binary = HeaderMap::new();
        binary.insert(header::ACCEPT_ENCODING, HeaderValue::from_bytes(b"gzip, \xff").unwrap());
        assert_eq!(Accepted::read(&binary), Accepted::default());
    }

    proptest! {
        #[test]
        fn no_list_panics_and_a_refused_coding_is_never_ranked(list in "[a-z*;=q0-9., -]{0,60}") {
            let list = format!("gzip;q=0, {list}");
            prop_assert!(!ranked(&[&list]).contains(&Gzip));
        }
    }
}
