//! The error of settings that cannot be put in force.

use std::fmt;

/// Why settings cannot be served: where it was written, and what is wrong there.
#[derive(Debug)]
pub struct OpenError {
    pub origin: String,
    pub text: String,
}

impl OpenError {
    pub fn new(origin: &str, text: impl Into<String>) -> OpenError {
        OpenError {
            origin: origin.to_owned(),
            text: text.into(),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin.is_empty() {
            out.write_str(&self.text)
        } else {
            write!(out, "{}: {}", self.origin, self.text)
        }
    }
}

impl std::error::Error for OpenError {}
