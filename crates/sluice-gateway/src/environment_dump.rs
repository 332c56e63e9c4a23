//! Telling a listing of the environment from a sentinel.
//!
//! Programs print their environment: `env`, a dump of all variables, a debugging page. The value of `CGIPLUSEOF` in such a
//! listing must not end the response. What every listing has in common is that the variable's name stands shortly before
//! its value; this file remembers the last output bytes and looks for that name. `scanner` asks it.

use memchr::memmem;

use crate::sentinel::Mark;

/// How far before a sentinel text its variable's name makes it a listing: room for `</td><td class="…">` between the two.
pub(crate) const LISTING_BYTES: usize = 64;

/// The last output bytes since the last sentinel text, [`LISTING_BYTES`] of them at most.
#[derive(Debug)]
pub(crate) struct Preceding {
    bytes: [u8; LISTING_BYTES],
    length: usize,
}

impl Preceding {
    pub(crate) fn new() -> Preceding {
        Preceding {
            bytes: [0; LISTING_BYTES],
            length: 0,
        }
    }

    /// Takes note of output bytes.
    pub(crate) fn note(&mut self, piece: &[u8]) {
        let piece = &piece[piece.len().saturating_sub(LISTING_BYTES)..];
        let kept = self.length.min(LISTING_BYTES - piece.len());
        self.bytes.copy_within(self.length - kept..self.length, 0);
        self.bytes[kept..kept + piece.len()].copy_from_slice(piece);
        self.length = kept + piece.len();
    }

    /// Forgets all bytes: a sentinel text, listed or not, has used up the name before it. Otherwise the sentinel that
    /// follows the last line of a listing would be taken for one more value.
    pub(crate) fn forget(&mut self) {
        self.length = 0;
    }

    /// Whether a sentinel text that comes next is the value in a listing.
    ///
    /// A text at the start of a line never is: that is how a script writes a real sentinel, also right after a page that
    /// mentions the variable's name in its last line.
    pub(crate) fn announces(&self, mark: Mark) -> bool {
        let preceding = &self.bytes[..self.length];
        if preceding.last() == Some(&b'\n') {
            return false;
        }
        let names = match mark {
            Mark::End => ["CGIPLUSEOF", "GATEWAY_EOF"],
            Mark::Escape => ["CGIPLUSESC", "GATEWAY_ESC"],
            Mark::Close => ["CGIPLUSEOT", "GATEWAY_EOT"],
        };
        names
            .iter()
            .any(|name| memmem::find(preceding, name.as_bytes()).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pieces: &[&str]) -> Preceding {
        let mut preceding = Preceding::new();
        for piece in pieces {
            preceding.note(piece.as_bytes());
        }
        preceding
    }

    #[test]
    fn usual_listings_are_recognised() {
        for text in [
            "CGIPLUSEOF=",
            "declare -x CGIPLUSEOF=\"",
            "<tr><td>CGIPLUSEOF</td><td class=\"v\">",
            "\"CGIPLUSEOF\": \"",
            "WWW_GATEWAY_EOF=",
            "[CGIPLUSEOF] => ",
            "<dt>CGIPLUSEOF</dt>\n<dd>",
        ] {
            assert!(after(&[text]).announces(Mark::End), "{text}");
        }
    }

    #[test]
    fn a_name_may_be_split_over_pieces() {
        assert!(after(&["x", "CGIPL", "USE", "OF", "="]).announces(Mark::End));
    }

    #[test]
    fn a_name_further_away_announces_nothing() {
        let gap = "-".repeat(LISTING_BYTES - "CGIPLUSEOF".len());
        assert!(after(&["CGIPLUSEOF", &gap]).announces(Mark::End));
        assert!(!after(&["CGIPLUSEOF", &gap, "-"]).announces(Mark::End));
    }

    #[test]
    fn a_name_announces_only_its_own_sentinel() {
        assert!(!after(&["CGIPLUSESC="]).announces(Mark::End));
        assert!(after(&["CGIPLUSESC="]).announces(Mark::Escape));
    }

    #[test]
    fn a_sentinel_at_the_start_of_a_line_is_one() {
        assert!(!after(&["see CGIPLUSEOF</body></html>\n"]).announces(Mark::End));
    }

    #[test]
    fn only_the_last_bytes_are_kept() {
        let preceding = after(&[&"a".repeat(40), &"b".repeat(40), &"c".repeat(10)]);
        let expected = ["a".repeat(14), "b".repeat(40), "c".repeat(10)].concat();
        assert_eq!(&preceding.bytes[..preceding.length], expected.as_bytes());
    }
}
