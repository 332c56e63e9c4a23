//! Log format strings, and the names of record formats: what an administrator writes, and messages about it.
//!
//! Properties: a format that was read, shown and read again is the same; a mistake is at a character of the text, and its message
//! is one printable line.

use sluice_settings::log_format::LogFormat;

/// Input: the format string.
pub fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match LogFormat::parse(text) {
        Ok(format) => {
            assert_eq!(format.to_string(), text);
            assert_eq!(LogFormat::parse(&format.to_string()).as_ref(), Ok(&format));
            // Literals around a format change nothing about what is valid.
            if text != "json" && text.contains('%') {
                assert!(LogFormat::parse(&format!("[{text}]")).is_ok());
            }
        }
        Err(mistake) => {
            assert!(
                (1..=text.chars().count().max(1)).contains(&mistake.at),
                "character {}",
                mistake.at
            );
            let message = mistake.to_string();
            assert!(!message.chars().any(char::is_control), "{message:?}");
        }
    }
}
