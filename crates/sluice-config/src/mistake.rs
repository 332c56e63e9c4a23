//! The mistakes of a configuration, as its readers get them: as lines of text, or for programs.

use std::fmt::{self, Write};

use sluice_http::escape::Escaping;

/// The mistakes of a configuration in the order of their lines, 20 at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The mistakes; the last one counts the others if there are more.
    pub mistakes: Vec<Mistake>,
}

/// A mistake of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as its reader named it. `None` if the mistake is in no file.
    pub file: Option<String>,
    /// The line, from 1. `None` for the file as a whole.
    pub line: Option<usize>,
    /// The mistake, and what to write instead.
    pub message: String,
}

impl ConfigErrors {
    /// A configuration that could not be read at all.
    pub(crate) fn one(file: &str, line: Option<usize>, message: String) -> ConfigErrors {
        let mistake = Mistake { file: Some(file.to_owned()), line, message };
        ConfigErrors { mistakes: vec![mistake] }
    }
}

impl Mistake {
    /// A mistake of a route whose place is known (`sluice.toml:12`).
    #[must_use]
    pub fn of_route(origin: &str, message: String) -> Mistake {
        let place = origin.rsplit_once(':');
        let (file, line) = match place.and_then(|(file, line)| Some((file, line.parse().ok()?))) {
            Some((file, line)) => (file, Some(line)),
            None => (origin, None),
        };
        Mistake { file: Some(file.to_owned()), line, message }
    }

    /// A mistake that is in no file, or whose message names it.
    #[must_use]
    pub fn of_nothing(message: String) -> Mistake {
        Mistake { file: None, line: None, message }
    }
}

/// One line, whatever the names of files contain.
impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Escaping::new(out);
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(out, "{file}:{line}: {}", self.message),
            (Some(file), None) => write!(out, "{file}: {}", self.message),
            (None, _) => out.write_str(&self.message),
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.mistakes.iter().map(ToString::to_string).collect();
        out.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

#[cfg(test)]
mod tests {
    use super::Mistake;

    #[test]
    fn a_mistake_is_one_line_whatever_the_file_is_called() {
        let mistake = Mistake {
            file: Some("sites.d/a\nsluice.toml".to_owned()),
            line: Some(3),
            message: "root: no directory /b\n\u{1b}[2J".to_owned(),
        };
        assert_eq!(
            mistake.to_string(),
            "sites.d/a\\nsluice.toml:3: root: no directory /b\\n\\u{1b}[2J"
        );
    }
}
