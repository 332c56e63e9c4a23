//! The lines of an open callout, put together from pieces and kept within bounds.
//!
//! `scanner` knows where a line ends, `callout` what it means.

use crate::callout;
use crate::output::{CALLOUT_BYTES_MAX, CALLOUT_LINE_BYTES_MAX, Output, OutputFault};

/// The lines of the open callout.
#[derive(Debug, Default)]
pub(crate) struct CalloutLines {
    /// What has come of the current line.
    line: Vec<u8>,
    /// Bytes in the lines before it.
    complete_bytes: usize,
}

impl CalloutLines {
    /// Adds to the current line.
    pub(crate) fn extend(&mut self, text: &[u8]) {
        self.line.extend_from_slice(text);
    }

    /// Whether nothing has come of the current line.
    pub(crate) fn is_at_line_start(&self) -> bool {
        self.line.is_empty()
    }

    /// Ends the current line; blank lines mean nothing.
    pub(crate) fn complete(&mut self) -> Option<Output> {
        self.complete_bytes += self.line.len() + 1;
        let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let output = (!text.trim_ascii().is_empty()).then(|| Output::Callout(callout::parse_callout(text)));
        self.line.clear();
        output
    }

    /// The bound that has been passed, if one has.
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
    }

    #[test]
    fn blank_lines_mean_nothing_but_count() {
        let mut lines = CalloutLines::default();
        for _ in 0..CALLOUT_BYTES_MAX {
            assert_eq!(lines.complete(), None);
            assert_eq!(lines.excess(), None);
        }
        assert_eq!(lines.complete(), None);
        assert_eq!(lines.excess(), Some(OutputFault::CalloutTooLong));
    }
}
