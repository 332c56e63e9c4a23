//! The lines of an open callout, assembled from chunks and limited in length.

use crate::callout;
use crate::output::{CALLOUT_BYTES_MAX, CALLOUT_LINE_BYTES_MAX, Output, OutputFault};

#[derive(Debug, Default)]
pub(crate) struct CalloutLines {
    /// The current line as far as it has arrived.
    line: Vec<u8>,
    /// The line before it.
    last: Vec<u8>,
    /// Bytes in the lines before it, newlines included.
    complete_bytes: usize,
}

impl CalloutLines {
    pub(crate) fn extend(&mut self, text: &[u8]) {
        self.line.extend_from_slice(text);
    }

    /// Whether no byte of the current line has arrived.
    pub(crate) fn is_at_line_start(&self) -> bool {
        self.line.is_empty()
    }

    /// Ends the current line and parses it; `None` if it is blank.
    pub(crate) fn complete(&mut self) -> Option<Output> {
        self.complete_bytes += self.line.len() + 1;
        let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let output = (!text.trim_ascii().is_empty()).then(|| Output::Callout(callout::parse_callout(text)));
        std::mem::swap(&mut self.line, &mut self.last);
        self.line.clear();
        output
    }

    /// The last complete line, as the script has written it.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// The error when the line or the callout is too long.
    pub(crate) fn excess(&self) -> Option<OutputFault> {
        if self.line.len() > CALLOUT_LINE_BYTES_MAX {
            return Some(OutputFault::CalloutLineTooLong);
        }
        (self.complete_bytes + self.line.len() > CALLOUT_BYTES_MAX).then_some(OutputFault::CalloutTooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_out_without_its_carriage_return() {
        let mut lines = CalloutLines::default();
        lines.extend(b"NO");
        lines.extend(b"OP:\r");
        assert_eq!(
            lines.complete(),
            Some(Output::Callout(callout::parse_callout(b"NOOP:")))
        );
        assert!(lines.is_at_line_start());
        assert_eq!(lines.last(), b"NOOP:\r");
    }

    #[test]
    fn blank_lines_are_ignored_but_counted() {
        let mut lines = CalloutLines::default();
        for _ in 0..CALLOUT_BYTES_MAX {
            assert_eq!(lines.complete(), None);
            assert_eq!(lines.excess(), None);
        }
        assert_eq!(lines.complete(), None);
        assert_eq!(lines.excess(), Some(OutputFault::CalloutTooLong));
    }
}
