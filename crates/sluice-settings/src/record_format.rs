//! Record formats of VMS files, as they are named in a configuration.
//!
//! On VMS the format of a file stands in its header, which no copy brings along, so the configuration must say it. Stream
//! formats have their newlines in the data and are not of this kind. Not here: decoding and serving such files.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// Bytes of the longest record of a sequential file (Guide to OpenVMS File Applications, "Record formats").
pub const RECORD_BYTES_MAX: u16 = 32_767;

/// Bytes of a control area of which nothing is said: the default of RMS.
const CONTROL_BYTES: u8 = 2;

/// How the records of a file lie in it. All begin at even offsets: an odd one is followed by a byte that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// Each record after its length: 16 bits, little-endian.
    Variable,
    /// The same, but that each begins with a control area, which is counted in its length and is no part of its text.
    Vfc {
        /// Bytes of the control area.
        control_bytes: u8,
    },
    /// All of one size, one after the other.
    Fixed {
        /// Bytes of each.
        bytes: NonZeroU16,
    },
}

impl RecordFormat {
    /// Most bytes of lines that so many bytes of a file become, what an earlier chunk has left open included.
    pub fn lines_bytes_max(self, bytes: usize) -> usize {
        match self {
            // Two bytes of length become one newline.
            RecordFormat::Variable | RecordFormat::Vfc { .. } => bytes + 1,
            RecordFormat::Fixed { bytes: size } => bytes + bytes / usize::from(size.get()) + 1,
        }
    }
}

/// As it is written in a configuration: `variable`, `vfc`, `vfc:4`, `fixed:80`.
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
    /// What to write instead.
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

/// `parse` would take a sign.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_read_as_it_is_written() {
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
    fn what_is_no_format_is_told_what_there_is() {
        let told = |text: &str| text.parse::<RecordFormat>().unwrap_err();
        for text in ["vfc:0", "vfc:256", "vfc:", "vfc:+4", "vfc:two"] {
            assert!(told(text).starts_with("a control area has 1 to 255 bytes"), "{text}");
        }
        for text in ["fixed:0", "fixed:32768", "fixed:", "fixed:+80", "fixed:80 "] {
            assert!(told(text).starts_with("a record has 1 to 32767 bytes"), "{text}");
        }
        assert!(told("fixed").starts_with("needs the bytes of a record"));
        for text in ["", "stream_lf", "Variable", "variable:2", "records"] {
            assert!(told(text).starts_with("records are \"variable\""), "{text}");
        }
    }
}
