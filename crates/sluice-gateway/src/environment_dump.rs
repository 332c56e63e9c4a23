//! Telling a sentinel from its text in a dump of the environment.
//!
//! Programs print their environment: `env`, a debugging page. The value of `CGIPLUSEOF` in such a dump must not end the
//! response. In every dump the variable's name stands shortly before its value. But a name alone proves nothing, because
//! a client may have sent it: it only makes a sentinel *doubtful*. What follows decides, and the script alone writes that.
//!
//! | doubtful | it is the sentinel | it is text |
//! |---|---|---|
//! | end | nothing follows but blanks, until the script pauses | anything else follows |
//! | escape | known callouts follow, and the close sentinel; or callouts, until the script pauses | anything else follows |
//!
//! `scanner` uses it, and asks the server to time the pause.

use memchr::memmem;

use crate::callout;
use crate::output::CALLOUT_LINE_BYTES_MAX;
use crate::sentinel::{Mark, SENTINEL_BYTES};

/// Bytes before a sentinel text that are searched for its variable's name: room for `</td><td class="…">` between the two.
pub(crate) const NAME_DISTANCE_BYTES_MAX: usize = 64;

/// Bytes after a doubtful escape sentinel that are examined: one callout of the longest line. Whatever is still in doubt then is text.
pub(crate) const EXAMINED_BYTES_MAX: usize = CALLOUT_LINE_BYTES_MAX + SENTINEL_BYTES + 1;

/// The meaning of a doubtful sentinel, by the bytes that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// More output decides, or a pause: then it is the sentinel.
    Undecided,
    Sentinel,
    Text,
}

/// The meaning of a doubtful sentinel that `following` comes after. `close` is the close sentinel.
pub(crate) fn meaning(mark: Mark, following: &[u8], close: &str) -> Meaning {
    let text = following.trim_ascii_start();
    let meaning = match mark {
        Mark::Escape => escape_meaning(text, close.as_bytes()),
        Mark::End | Mark::Close if text.is_empty() => Meaning::Undecided,
        Mark::End | Mark::Close => Meaning::Text,
    };
    match meaning {
        Meaning::Undecided if following.len() >= EXAMINED_BYTES_MAX => Meaning::Text,
        meaning => meaning,
    }
}

fn escape_meaning(following: &[u8], close: &[u8]) -> Meaning {
    let closed_at = memmem::find(following, close);
    let lines = &following[..closed_at.unwrap_or(following.len())];
    // Without the close sentinel the last line may go on; part of that sentinel is no part of the line.
    let last = memchr::memrchr(b'\n', lines).map_or(0, |at| at + 1);
    let (whole, begun) = match closed_at {
        Some(_) => (lines, &[][..]),
        None => (&lines[..last], without_begun(&lines[last..], close)),
    };
    let mut are_known = true;
    for line in whole.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.is_empty() {
            continue;
        }
        if !is_callout(line, true) {
            return Meaning::Text;
        }
        are_known &= callout::is_known(line);
    }
    if !is_callout(begun, false) {
        return Meaning::Text;
    }
    match closed_at {
        None => Meaning::Undecided,
        Some(_) if are_known && !lines.is_empty() => Meaning::Sentinel,
        // A callout that does not exist: its script waits for the answer, and a dump goes on.
        Some(at) if following[at + close.len()..].trim_ascii().is_empty() => Meaning::Undecided,
        Some(_) => Meaning::Text,
    }
}

/// The line without the beginning of the close sentinel at its end.
fn without_begun<'a>(line: &'a [u8], close: &[u8]) -> &'a [u8] {
    match memchr::memrchr(b'$', line) {
        Some(at) if close.starts_with(&line[at..]) => &line[..at],
        _ => line,
    }
}

/// Whether a line reads like a callout: `KEYWORD: …`, or one of the keywords alone. One that has not ended may become that.
fn is_callout(line: &[u8], has_ended: bool) -> bool {
    let line = callout::without_mark(line.trim_ascii_start()).1;
    match memchr::memchr(b':', line) {
        Some(colon) => is_keyword(line[..colon].trim_ascii()),
        None if has_ended => callout::is_known(line),
        None => line.is_empty() || is_keyword(line.trim_ascii_end()),
    }
}

fn is_keyword(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// The last output bytes since the last sentinel text, at most [`NAME_DISTANCE_BYTES_MAX`] of them.
#[derive(Debug)]
pub(crate) struct PrecedingOutput {
    bytes: [u8; NAME_DISTANCE_BYTES_MAX],
    length: usize,
}

impl PrecedingOutput {
    pub(crate) fn new() -> PrecedingOutput {
        PrecedingOutput { bytes: [0; NAME_DISTANCE_BYTES_MAX], length: 0 }
    }

    pub(crate) fn record(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(NAME_DISTANCE_BYTES_MAX)..];
        let kept = self.length.min(NAME_DISTANCE_BYTES_MAX - chunk.len());
        self.bytes.copy_within(self.length - kept..self.length, 0);
        self.bytes[kept..kept + chunk.len()].copy_from_slice(chunk);
        self.length = kept + chunk.len();
    }

    /// Forgets all bytes, after each sentinel text: a name counts for one value only, or the real sentinel after a dump would be doubtful, too.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Whether a sentinel text that comes next may be a variable's value in a dump.
    ///
    /// A text at the start of a line is always a sentinel, because that is how most scripts write it.
    pub(crate) fn makes_doubtful(&self, mark: Mark) -> bool {
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

    const CLOSE: &str = "$D-0123456789abcdef01234567-";

    fn after(chunks: &[&str]) -> PrecedingOutput {
        let mut preceding = PrecedingOutput::new();
        for chunk in chunks {
            preceding.record(chunk.as_bytes());
        }
        preceding
    }

    fn meaning_of(mark: Mark, following: &str) -> Meaning {
        meaning(mark, following.replace("CLOSE", CLOSE).as_bytes(), CLOSE)
    }

    #[test]
    fn an_end_with_more_output_is_text() {
        for following in ["", "\n", "\r\n \n"] {
            assert_eq!(meaning_of(Mark::End, following), Meaning::Undecided, "{following:?}");
        }
        for following in ["\"", "\nx", "</td>", "$"] {
            assert_eq!(meaning_of(Mark::End, following), Meaning::Text, "{following:?}");
        }
    }

    #[test]
    fn an_escape_with_callouts_and_a_close_is_the_sentinel() {
        for following in [
            "\nNOOP:\nCLOSE",
            "!CGIPLUS: structCLOSE",
            "map-path: /x\n#NOOP\n\nCLOSE and more",
        ] {
            assert_eq!(meaning_of(Mark::Escape, following), Meaning::Sentinel, "{following:?}");
        }
    }

    #[test]
    fn an_escape_in_a_dump_is_text() {
        for following in [
            "\nCGIPLUSEOT=CLOSE\n",
            "\nCGIPLUSEOT=",
            "\"}",
            "</td>",
            "\n\nend\n",
            "\nWWW_GATEWAY",
            "\nCGIPLUSEOT: CLOSE\nCGIPLUSIN: /dev/fd/3\n",
            "\nHOME: /root\n<p>",
            " NOTICED: the client's text\n<p>",
            "CLOSE\nmore",
        ] {
            assert_eq!(meaning_of(Mark::Escape, following), Meaning::Text, "{following:?}");
        }
        let long = format!("X: {}", "x".repeat(EXAMINED_BYTES_MAX));
        assert_eq!(meaning_of(Mark::Escape, &long), Meaning::Text);
    }

    #[test]
    fn an_escape_with_no_more_than_the_beginning_of_callouts_is_undecided() {
        for following in [
            "",
            "\n",
            "!",
            "MAP",
            "MAP-PATH: /x",
            "MAP-PATH: /x\n",
            "NOOP:\n$D-01",
            "FLY-TO: x\nCLOSE\n",
        ] {
            assert_eq!(meaning_of(Mark::Escape, following), Meaning::Undecided, "{following:?}");
        }
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
            assert!(after(&[text]).makes_doubtful(Mark::End), "{text}");
        }
    }

    #[test]
    fn a_name_may_be_split_over_chunks() {
        assert!(after(&["x", "CGIPL", "USE", "OF", "="]).makes_doubtful(Mark::End));
    }

    #[test]
    fn a_name_further_away_does_not_count() {
        let gap = "-".repeat(NAME_DISTANCE_BYTES_MAX - "CGIPLUSEOF".len());
        assert!(after(&["CGIPLUSEOF", &gap]).makes_doubtful(Mark::End));
        assert!(!after(&["CGIPLUSEOF", &gap, "-"]).makes_doubtful(Mark::End));
    }

    #[test]
    fn a_name_counts_only_for_its_own_sentinel() {
        assert!(!after(&["CGIPLUSESC="]).makes_doubtful(Mark::End));
        assert!(after(&["CGIPLUSESC="]).makes_doubtful(Mark::Escape));
    }

    #[test]
    fn a_text_at_the_start_of_a_line_is_a_sentinel() {
        assert!(!after(&["see CGIPLUSEOF</body></html>\n"]).makes_doubtful(Mark::End));
    }

    #[test]
    fn only_the_last_bytes_are_kept() {
        let preceding = after(&[&"a".repeat(40), &"b".repeat(40), &"c".repeat(10)]);
        let expected = ["a".repeat(14), "b".repeat(40), "c".repeat(10)].concat();
        assert_eq!(&preceding.bytes[..preceding.length], expected.as_bytes());
    }
}
