//! A list of strings in a message, with a bound on their number.
//!
//! An empty string has one byte in a message, and some 50 in memory, so a message of 8 MiB could take 400.

use std::ffi::CString;
use std::fmt;

use serde::Deserializer;
use serde::de::{Error as _, SeqAccess, Visitor};

pub(crate) const STRINGS_MAX: usize = 1 << 16;

/// Reads a list of strings, and stops at [`STRINGS_MAX`], before there is memory for more.
pub(crate) fn few_strings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CString>, D::Error> {
    struct Strings;

    impl<'de> Visitor<'de> for Strings {
        type Value = Vec<CString>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "{STRINGS_MAX} strings at most")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<CString>, A::Error> {
            let mut strings = Vec::new();
            while let Some(string) = list.next_element()? {
                if strings.len() == STRINGS_MAX {
                    return Err(A::Error::invalid_length(strings.len() + 1, &self));
                }
                strings.push(string);
            }
            Ok(strings)
        }
    }

    deserializer.deserialize_seq(Strings)
}
