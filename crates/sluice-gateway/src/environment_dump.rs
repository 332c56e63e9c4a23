//! Telling a sentinel from its text in a dump of the environment.
//!
//! Programs print their environment: `env`, a debugging page. The value of `CGIPLUSEOF` in such a dump must not end the
//! response. In every dump the variable's name stands shortly before its value, so this file keeps the last output
//! bytes and looks for that name. `scanner` uses it.

use memchr::memmem;

use crate::sentinel::Mark;

/// Bytes before a sentinel text that are searched for its variable's name: room for `</td><td class="…">` between the
/// two.
pub(crate) const NAME_DISTANCE_BYTES_MAX: usize = 64;

/// The last output bytes since the last sentinel text, at most [`NAME_DISTANCE_BYTES_MAX`] of them.
#[derive(Debug)]
pub(crate) struct PrecedingOutput {
    bytes: [u8; NAME_DISTANCE_BYTES_MAX],
    length: usize,
}

impl PrecedingOutput {
    pub(crate) fn new() -> PrecedingOutput {
        PrecedingOutput {
            bytes: [0; NAME_DISTANCE_BYTES_MAX],
            length: 0,
        }
    }

    /// Records output bytes.
    pub(crate) fn record(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(NAME_DISTANCE_BYTES_MAX)..];
        let kept = self.length.min(NAME_DISTANCE_BYTES_MAX - chunk.len());
        self.bytes.copy_within(self.length - kept..self.length, 0);
        self.bytes[kept..kept + chunk.len()].copy_from_slice(chunk);
        self.length = kept + chunk.len();
    }

    /// Forgets all bytes. Called after each sentinel text, in a dump or not, because a name counts for one value only:
    /// otherwise the real sentinel after the last line of a dump would be taken for one more value.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Whether a sentinel text that comes next is a variable's value in a dump.
    ///
    /// A text at the start of a line is always a sentinel, because that is how scripts write it, also right after a
    /// page that mentions the variable's name in its last line.
    pub(crate) fn has_name_of(&self, mark: Mark) -> bool {
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

    fn after(chunks: &[&str]) -> PrecedingOutput {
        let mut preceding = PrecedingOutput::new();
        for chunk in chunks {
            preceding.record(chunk.as_bytes());
        }
        preceding
    }

    #[test]
    fn usual_dumps_are_recognised() {
        for text in [
            "CGIPLUSEOF=",
            "declare -x CGIPLUSEOF=\"",
            "<tr><td>CGIPLUSEOF</td><td class=\"v\">",
            "\"CGIPLUSEOF\": \"",
            "WWW_GATEWAY_EOF=",
            "[CGIPLUSEOF] => ",
            "<dt>CGIPLUSEOF</dt>\n<dd>",
        ] {
            assert!(after(&[text]).has_name_of(Mark::End), "{text}");
        }
    }

    #[test]
    fn a_name_may_be_split_over_chunks() {
        assert!(after(&["x", "CGIPL", "USE", "OF", "="]).has_name_of(Mark::End));
    }

    #[test]
    fn a_name_further_away_does_not_count() {
        let gap = "-".repeat(NAME_DISTANCE_BYTES_MAX - "CGIPLUSEOF".len());
        assert!(after(&["CGIPLUSEOF", &gap]).has_name_of(Mark::End));
        assert!(!after(&["CGIPLUSEOF", &gap, "-"]).has_name_of(Mark::End));
    }

    #[test]
    fn a_name_counts_only_for_its_own_sentinel() {
        assert!(!after(&["CGIPLUSESC="]).has_name_of(Mark::End));
        assert!(after(&["CGIPLUSESC="]).has_name_of(Mark::Escape));
    }

    #[test]
    fn a_text_at_the_start_of_a_line_is_a_sentinel() {
        assert!(!after(&["see CGIPLUSEOF</body></html>\n"]).has_name_of(Mark::End));
    }

    #[test]
    fn only_the_last_bytes_are_kept() {
        let preceding = after(&[&"a".repeat(40), &"b".repeat(40), &"c".repeat(10)]);
        let expected = ["a".repeat(14), "b".repeat(40), "c".repeat(10)].concat();
        assert_eq!(&preceding.bytes[..preceding.length], expected.as_bytes());
    }
}
