//! The error of settings that cannot be used.

use std::fmt;

/// Settings that cannot be used: a file that cannot be opened, an address that cannot be bound. The fault is the server's.
#[derive(Debug)]
pub struct OpenError {
    /// The place in the configuration (`sluice.toml:12`), or empty.
    pub origin: String,
    /// The problem.
    pub text: String,
}

impl OpenError {
    /// The error of the setting at `origin`, which may be empty.
    pub fn new(origin: &str, text: impl Into<String>) -> OpenError {
        OpenError { origin: origin.to_owned(), text: text.into() }
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
