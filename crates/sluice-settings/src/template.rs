//! A page that a site may replace: a template in the language of Jinja, read and tried before anything is served by it.
//!
//! Here: reading, the bounds, rendering, and messages for whoever wrote a template. Not here: what a page may say: that is
//! known where the page is made (`handler::listing::page`, `write::error_page`), and each of them tries a template
//! with a page of its own kind.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

/// Largest text of a template, bytes: it is held in memory, and no page for people is longer.
pub const TEMPLATE_BYTES_MAX: usize = 256 << 10;

/// Steps that rendering may take, roughly one for each tag and value put out: some hundred for each line of the longest
/// listing. A template that loops on is then a failed one.
const STEPS_MAX: u64 = 5_000_000;

/// The template's name within its environment. By its ending all values are escaped for HTML.
const NAME: &str = "page.html";

/// A template that can be rendered. Clones share it.
#[derive(Clone)]
pub struct Template {
    path: PathBuf,
    environment: Arc<Environment<'static>>,
}

/// What is wrong with a template: the line of its file, where one is to blame, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// From 1.
    pub line: Option<usize>,
    /// In words.
    pub text: String,
}

impl Template {
    /// Reads a template; `path` is its name in messages.
    pub fn parse(path: &Path, text: &str) -> Result<Template, TemplateError> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError {
                line: None,
                text: format!("is larger than {} KiB", TEMPLATE_BYTES_MAX >> 10),
            });
        }
        let mut environment = Environment::new();
        // A misspelt name is a mistake, and is found when the template is tried.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(STEPS_MAX));
        environment.add_template_owned(NAME, text.to_owned())?;
        Ok(Template {
            path: path.to_owned(),
            environment: Arc::new(environment),
        })
    }

    /// The page that these values make.
    pub fn render(&self, values: impl Serialize) -> Result<String, TemplateError> {
        Ok(self.environment.get_template(NAME)?.render(values)?)
    }

    /// The file that it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Template").field(&self.path).finish()
    }
}

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> TemplateError {
        let text = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        TemplateError {
            line: error.line(),
            text,
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "line {line}: {}", self.text),
            None => out.write_str(&self.text),
        }
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn render(text: &str, name: &str) -> Result<String, TemplateError> {
        let values = BTreeMap::from([("name", name)]);
        Template::parse(Path::new("t.html"), text)?.render(values)
    }

    #[test]
    fn values_are_escaped_for_elements_and_attributes() {
        let page = render("<p title=\"{{ name }}\">{{ name }}</p>", "a\"b<c>&'").unwrap();
        assert_eq!(
            page,
            "<p title=\"a&quot;b&lt;c&gt;&amp;&#x27;\">a&quot;b&lt;c&gt;&amp;&#x27;</p>"
        );
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let line = |text: &str| render(text, "").unwrap_err().line;
        assert_eq!(line("a\nb {{ nmae }}"), Some(2), "a misspelt name");
        assert_eq!(line("a\n\n{% for x in %}"), Some(3), "what is no expression");
        assert_eq!(line("{{ name|shout }}"), Some(1), "a filter that is not there");
    }

    #[test]
    fn a_template_has_an_end_and_a_largest_size() {
        let loops = "{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}";
        assert!(render(loops, "").is_err());
        assert!(render(&"x".repeat(TEMPLATE_BYTES_MAX), "").is_ok());
        assert!(render(&"x".repeat(TEMPLATE_BYTES_MAX + 1), "").is_err());
    }

    #[test]
    fn a_template_reads_no_file() {
        for text in ["{% include \"/etc/passwd\" %}", "{% extends \"/etc/passwd\" %}"] {
            assert!(render(text, "").is_err(), "{text}");
        }
    }
}
