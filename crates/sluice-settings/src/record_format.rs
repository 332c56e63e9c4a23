//! Record formats of VMS files, as a configuration names them.
//!
//! VMS stores the record format in the header of a file, which copies to other systems lose, so the configuration must
//! name it. Stream formats are not listed, because their data contains the newlines.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// Bytes of the longest record of a sequential file (Guide to OpenVMS File Applications, "Record formats").
pub const RECORD_BYTES_MAX: u16 = 32_767;

/// Bytes of a control area, if the configuration does not say: the default of RMS.
const CONTROL_BYTES: u8 = 2;

/// How the records of a file are stored. All begin at even offsets: a record of odd length is followed by a padding byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// Before each record its length: 16 bits, little-endian.
    Variable,
    /// Records as in `Variable`, each with a control area at its begin, which counts in its length and is not part of its text.
    Vfc {
        /// Bytes of the control area.
        control_bytes: u8,
    },
    /// Records of one size.
    Fixed {
        /// Bytes of each record.
        bytes: NonZeroU16,
    },
}

impl RecordFormat {
    /// The most bytes of lines that `bytes` bytes of a file can become, with the rest of a line from earlier bytes.
    pub fn lines_bytes_max(self, bytes: usize) -> usize {
        match self {
            // Two bytes of length become one newline.
            RecordFormat::Variable | RecordFormat::Vfc { .. } => bytes + 1,
            RecordFormat::Fixed { bytes: size } => bytes + bytes / usize::from(size.get()) + 1,
        }
    }
}

/// The notation of the configuration: `variable`, `vfc`, `vfc:4`, `fixed:80`.
impl fmt::Display for RecordFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFormat::Variable => out.write_str("variable"),
            RecordFormat::Vfc { control_bytes } if *control_bytes == CONTROL_BYTES => out.write_str("vfc"),
            RecordFormat::Vfc { control_bytes } => write!(out, "vfc:{control_bytes}"),
            RecordFormat::Fixed { bytes } => write!(out, "fixed:{bytes}"),
        }
    }
}

impl FromStr for RecordFormat {
    /// The message for the administrator, with the text to write instead.
    type Err = String;

    fn from_str(text: &str) -> Result<RecordFormat, String> {
        let (name, size) = match text.split_once(':') {
            Some((name, size)) => (name, Some(size)),
            None => (text, None),
        };
        match (name, size) {
            ("variable", None) => Ok(RecordFormat::Variable),
            ("vfc", None) => Ok(RecordFormat::Vfc {
                control_bytes: CONTROL_BYTES,
            }),
            ("vfc", Some(size)) => match size.parse() {
                Ok(control_bytes @ 1..) if is_number(size) => Ok(RecordFormat::Vfc { control_bytes }),
                _ => Err("a control area has 1 to 255 bytes, as in \"vfc:4\"; \"vfc\" alone means 2".to_owned()),
            },
            ("fixed", Some(size)) => match size.parse::<NonZeroU16>() {
                Ok(bytes) if is_number(size) && bytes.get() <= RECORD_BYTES_MAX => Ok(RecordFormat::Fixed { bytes }),
                _ => Err(format!("a record has 1 to {RECORD_BYTES_MAX} bytes, as in \"fixed:80\"")),
            },
            ("fixed", None) => Err("needs the bytes of a record, as in \"fixed:80\"".to_owned()),
            _ => Err(
                "records are \"variable\", \"vfc\", \"vfc:4\" (a control area of 4 bytes) or \"fixed:80\" (80 bytes each)"
                    .to_owned(),
            ),
        }
    }
}

/// Whether a text has only digits; `parse` would accept a sign too.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_shown_as_it_is_read() {
        for text in [
            "variable",
            "vfc",
            "vfc:1",
            "vfc:255",
            "fixed:1",
            "fixed:80",
            "fixed:32767",
        ] {
            let format: RecordFormat = text.parse().unwrap();
            assert_eq!(format.to_string(), text);
        }
        assert_eq!("vfc:2".parse::<RecordFormat>(), "vfc".parse());
    }

    #[test]
    fn an_invalid_format_is_refused_with_the_valid_ones() {
        let message = |text: &str| text.parse::<RecordFormat>().unwrap_err();
        for text in ["vfc:0", "vfc:256", "vfc:", "vfc:+4", "vfc:two"] {
            assert!(message(text).starts_with("a control area has 1 to 255 bytes"), "{text}");
        }
        for text in ["fixed:0", "fixed:32768", "fixed:", "fixed:+80", "fixed:80 "] {
            assert!(message(text).starts_with("a record has 1 to 32767 bytes"), "{text}");
        }
        assert!(message("fixed").starts_with("needs the bytes of a record"));
        for text in ["", "stream_lf", "Variable", "variable:2", "records"] {
            assert!(message(text).starts_with("records are \"variable\""), "{text}");
        }
    }
}
