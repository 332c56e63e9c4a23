//! Templates of pages that a site may replace, in the language of Jinja; they are parsed and tried before they are used.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

/// Largest text of a template, bytes: it is kept in memory, and pages for people are shorter.
pub const TEMPLATE_BYTES_MAX: usize = 256 << 10;

/// Most steps of rendering, about one for each tag and value: some hundred per line of the longest listing. More fail, so that no template loops forever.
const STEPS_MAX: u64 = 5_000_000;

/// The template's name within its environment. Because of its suffix all values are escaped for HTML.
const NAME: &str = "page.html";

/// A parsed template. Clones share it.
#[derive(Clone)]
pub struct Template {
    path: PathBuf,
    environment: Arc<Environment<'static>>,
}

/// A mistake in a template, which is its author's to fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The line of the file, from 1, if known.
    pub line: Option<usize>,
    /// The problem.
    pub text: String,
}

impl Template {
    /// Parses a template; `path` is its name in messages.
    pub fn parse(path: &Path, text: &str) -> Result<Template, TemplateError> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError {
                line: None,
                text: format!("is larger than {} KiB", TEMPLATE_BYTES_MAX >> 10),
            });
        }
        let mut environment = Environment::new();
        // A misspelt variable is an error, which is found when the template is tried.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(STEPS_MAX));
        environment.add_template_owned(NAME, text.to_owned())?;
        Ok(Template {
            path: path.to_owned(),
            environment: Arc::new(environment),
        })
    }

    /// Renders the page with these variables.
    pub fn render(&self, values: impl Serialize) -> Result<String, TemplateError> {
        Ok(self.environment.get_template(NAME)?.render(values)?)
    }

    /// The file of the template.
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
    fn mistakes_are_reported_with_their_line() {
        let line = |text: &str| render(text, "").unwrap_err().line;
        assert_eq!(line("a\nb {{ nmae }}"), Some(2), "a misspelt name");
        assert_eq!(line("a\n\n{% for x in %}"), Some(3), "an unfinished tag");
        assert_eq!(line("{{ name|shout }}"), Some(1), "an unknown filter");
    }

    #[test]
    fn endless_and_oversized_templates_are_refused() {
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
