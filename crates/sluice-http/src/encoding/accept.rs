//! Which content codings a client takes, and how gladly: its field Accept-Encoding (RFC 9110 §12.5.3).
//!
//! Here: reading the field, in one pass within a bound, and the order of what may be chosen. Not here: what forms there are
//! (`handler::encodings`, `handler::reply_encoding`).

use std::cmp::Reverse;

use http::{HeaderMap, header};

use crate::accept::{lines, weight};
use crate::encoding::Encoding;

/// Codings that a client takes, the one that it likes best first; with their weights in thousandths.
pub type Ranked = [Option<(Encoding, u16)>; Encoding::ALL.len()];

/// What a client says of codings: weights in thousandths, zero being a refusal; none where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    named: [Option<u16>; Encoding::ALL.len()],
    /// `*`: those that are not named.
    others: Option<u16>,
    /// The bytes as they are.
    identity: Option<u16>,
}

impl Accepted {
    /// Reads the field. Of what is named twice the first counts; what is no weight, or lies beyond the bound, does not.
    pub fn read(fields: &HeaderMap) -> Accepted {
        let mut accepted = Accepted::default();
        let entries = lines(fields, header::ACCEPT_ENCODING).flat_map(|line| line.split(','));
        for entry in entries {
            let mut parts = entry.split(';');
            let name = parts.next().unwrap_or_default().trim();
            let Some(place) = accepted.place(name) else { continue };
            if place.is_none() {
                *place = weight(parts);
            }
        }
        accepted
    }

    /// Where the weight of a name belongs.
    fn place(&mut self, name: &str) -> Option<&mut Option<u16>> {
        match Encoding::named(name) {
            Some(encoding) => Some(&mut self.named[encoding.index()]),
            None if name == "*" => Some(&mut self.others),
            None if name.eq_ignore_ascii_case("identity") => Some(&mut self.identity),
            None => None,
        }
    }

    /// Those of `offered` that the client takes and does not like less than the bytes as they are; of equals the earlier
    /// first.
    ///
    /// None of them means: as they are, even for who refuses that too (`identity;q=0`). Such a client gets more from bytes
    /// that it may know to read than from 406 (RFC 9110 §12.4.1, §15.5.7).
    pub fn rank(&self, offered: &[Encoding]) -> Ranked {
        // Who names a coding and not `identity` wants the coding, with whatever weight.
        let least = self.identity.or(self.others).unwrap_or(0);
        let mut ranked = Ranked::default();
        for (place, encoding) in ranked.iter_mut().zip(offered) {
            let weight = self.named[encoding.index()].or(self.others);
            *place = weight
                .filter(|weight| *weight > 0 && *weight >= least)
                .map(|weight| (*encoding, weight));
        }
        ranked.sort_by_key(|entry| Reverse(entry.map(|(_, weight)| weight)));
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
    fn what_is_taken_is_ranked_by_weight_and_then_by_the_servers_order() {
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
    fn what_is_not_taken_or_liked_less_than_the_bytes_as_they_are_is_not_sent() {
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
        // Who likes anything else better likes the bytes as they are better, too.
        let mut fields = HeaderMap::new();
        fields.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip;q=0.3, *;q=0.8"));
        assert_eq!(Accepted::read(&fields).rank(&[Gzip]), Ranked::default());
        assert_eq!(ranked(&["gzip;q=0.3, *;q=0.8"]), [Brotli, Zstd]);
        assert_eq!(ranked(&["identity;q=0, gzip;q=0.1, br;q=0"]), [Gzip]);
    }

    #[test]
    fn several_lines_are_one_list_and_what_lies_beyond_the_bound_is_not_seen() {
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
        fn no_list_panics_and_what_is_refused_is_never_ranked(list in "[a-z*;=q0-9., -]{0,60}") {
            let list = format!("gzip;q=0, {list}");
            prop_assert!(!ranked(&[&list]).contains(&Gzip));
        }
    }
}
