//! Templates of pages that a site may replace, in the language of Jinja; they are parsed and tried before they are used.
//!
//! Their authors may be users who can do nothing else to the server. So a template has no variables of its own, no macros and no repetition of texts, with which
//! thirty lines double a text to more than the memory; what is left of the language makes texts of bounded length.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::machinery::{Token, WhitespaceConfig, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value, filters, tests as checks};
use serde::Serialize;

/// Largest text of a template, bytes: it is kept in memory, and pages for people are shorter.
pub const TEMPLATE_BYTES_MAX: usize = 256 << 10;

/// Most steps of rendering, about one for each tag and value. More fail: whoever can write a template must not keep a worker busy.
const STEPS_MAX: u64 = 20_000;

/// More of them for each value that the page shows as a line.
const STEPS_OF_LINE: u64 = 500;

/// Bytes of all texts that filters may change for a page.
const FILTERED_BYTES_MAX: usize = 8 << 20;

/// Longest text within a tag, bytes.
const LITERAL_BYTES_MAX: usize = 1 << 10;

/// Largest page, bytes.
const PAGE_BYTES_MAX: usize = 16 << 20;

thread_local! {
    /// The bytes that filters may still change for the page that this thread renders.
    static FILTERED_BYTES_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Most tokens between `{{` and `}}`, or `{%` and `%}`: each may be a text as long as a URL.
const TAG_TOKENS_MAX: usize = 64;

const TAGS: [&str; 6] = ["for", "endfor", "if", "elif", "else", "endif"];

/// Words after which a bracket begins a list.
const WORDS: [&str; 7] = ["in", "not", "and", "or", "is", "if", "else"];

/// The template's name within its environment.
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
        check_tags(text)?;
        let mut environment = Environment::empty();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        add_filters(&mut environment);
        // A misspelt variable is an error, which is found when the template is tried.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_template_owned(NAME, text.to_owned())?;
        Ok(Template {
            path: path.to_owned(),
            environment: Arc::new(environment),
        })
    }

    /// Renders the page with these variables, of which so many are lines of the page.
    pub fn render(&self, values: impl Serialize, lines: usize) -> Result<String, TemplateError> {
        let mut page = Page(Vec::new());
        let mut environment = (*self.environment).clone();
        environment.set_fuel(Some(STEPS_MAX + STEPS_OF_LINE * lines as u64));
        FILTERED_BYTES_LEFT.set(FILTERED_BYTES_MAX);
        let template = environment.get_template(NAME)?;
        drop(template.render_captured_to(values, &mut page)?);
        Ok(String::from_utf8_lossy(&page.0).into_owned())
    }

    /// The file of the template.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The page that is being rendered.
struct Page(Vec<u8>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > PAGE_BYTES_MAX {
            let text = format!("the page is larger than {} MiB", PAGE_BYTES_MAX >> 20);
            return Err(io::Error::other(text));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The filters and tests of templates: none makes a text much longer.
fn add_filters(environment: &mut Environment<'static>) {
    environment.add_filter("capitalize", |text: &Value| filter(text, capitalized));
    environment.add_filter("default", filters::default);
    environment.add_filter("escape", filters::escape);
    environment.add_filter("first", filters::first);
    environment.add_filter("last", filters::last);
    environment.add_filter("length", filters::length);
    environment.add_filter("lower", |text: &Value| filter(text, str::to_lowercase));
    environment.add_filter("safe", filters::safe);
    environment.add_filter("title", |text: &Value| filter(text, |text| filters::title(text.into())));
    environment.add_filter("trim", |text: &Value| filter(text, |text| text.trim().to_owned()));
    environment.add_filter("upper", |text: &Value| filter(text, str::to_uppercase));
    environment.add_test("defined", checks::is_defined);
    environment.add_test("none", checks::is_none);
    environment.add_test("odd", checks::is_odd);
    environment.add_test("even", checks::is_even);
}

/// Changes a text, if the page may have so many. A safe text stays so.
fn filter(value: &Value, change: impl FnOnce(&str) -> String) -> Result<Value, Error> {
    let text = value.to_string();
    let left = FILTERED_BYTES_LEFT.get().checked_sub(text.len());
    let too_many = || {
        format!(
            "the filters of a page change more than {} MiB",
            FILTERED_BYTES_MAX >> 20
        )
    };
    FILTERED_BYTES_LEFT.set(left.ok_or_else(|| Error::new(ErrorKind::OutOfFuel, too_many()))?);
    let changed = change(&text);
    Ok(match value.is_safe() {
        true => Value::from_safe_string(changed),
        false => changed.into(),
    })
}

fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + &rest.to_lowercase()
}

/// Refuses tags that keep or repeat texts, lists and long texts. A mistake in the syntax is reported when the template is parsed.
fn check_tags(text: &str) -> Result<(), TemplateError> {
    let (mut tokens, mut begins_tag, mut is_value) = (0, false, false);
    for token in tokenize(text, false, SyntaxConfig, WhitespaceConfig::default()) {
        let Ok((token, span)) = token else { return Ok(()) };
        let refuse = |text: String| {
            let line = Some(usize::from(span.start_line));
            Err(TemplateError { line, text })
        };
        let too_long = || format!("a text within a tag is longer than {LITERAL_BYTES_MAX} bytes");
        tokens += 1;
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => tokens = 0,
            Token::Ident(name) if begins_tag && !TAGS.contains(&name) => {
                return refuse(format!("a page has no tag \"{name}\": it has if and for"));
            }
            Token::Ident("recursive") => return refuse("a loop cannot be recursive".to_owned()),
            Token::Mul | Token::Pow => return refuse("a page cannot multiply".to_owned()),
            Token::BracketOpen if !is_value => return refuse("a page has no lists of its own".to_owned()),
            Token::BraceOpen => return refuse("a page has no maps of its own".to_owned()),
            Token::Str(text) if text.len() > LITERAL_BYTES_MAX => return refuse(too_long()),
            Token::String(ref text) if text.len() > LITERAL_BYTES_MAX => return refuse(too_long()),
            _ if tokens > TAG_TOKENS_MAX => {
                return refuse(format!("a tag has more than {TAG_TOKENS_MAX} names, values and signs"));
            }
            _ => {}
        }
        begins_tag = matches!(token, Token::BlockStart);
        is_value = match token {
            Token::Ident(name) => !WORDS.contains(&name),
            Token::BracketClose | Token::ParenClose => true,
            _ => false,
        };
    }
    Ok(())
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
        TemplateError { line: error.line(), text }
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
        Template::parse(Path::new("t.html"), text)?.render(values, 0)
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
        let mut loops = "{{ a }}".to_owned();
        for _ in 0..10 {
            loops = format!("{{% for a in name %}}{loops}{{% endfor %}}");
        }
        assert!(render(&loops, "0123456789").unwrap_err().text.contains("fuel"));
        let long = "x".repeat(TEMPLATE_BYTES_MAX - 100);
        let page = render(&format!("{{% for a in name %}}{long}{{% endfor %}}"), &"x".repeat(100));
        assert!(page.unwrap_err().text.contains("write"));
        assert!(render(&"x".repeat(TEMPLATE_BYTES_MAX), "").is_ok());
        assert!(render(&"x".repeat(TEMPLATE_BYTES_MAX + 1), "").is_err());
    }

    #[test]
    fn a_template_cannot_double_a_text() {
        for (text, reason) in [
            ("\n{% set s = name ~ name %}", "no tag \"set\""),
            ("\n{%- with s = name ~ name %}{% endwith %}", "no tag \"with\""),
            ("\n{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}", "no tag \"macro\""),
            ("\n{% filter upper %}{% endfilter %}", "no tag \"filter\""),
            ("\n{{ \"x\" * 1000000000000 }}", "multiply"),
            (
                "\n{% for x in name recursive %}{{ loop(x) ~ loop(x) }}{% endfor %}",
                "recursive",
            ),
        ] {
            let error = render(text, "x").unwrap_err();
            assert!(error.line == Some(2) && error.text.contains(reason), "{text}: {error}");
        }
        for text in [
            "{{ name|replace(\"x\", \"xxxxxxxxxx\") }}",
            "{{ range(100) }}",
            "{{ name|join(name) }}",
            "{{ name|indent(1000000000000) }}",
        ] {
            assert!(render(text, "x").is_err(), "{text}");
        }
        for text in [
            "{% for x in [name, name] %}{% endfor %}",
            "{{ {\"a\": name} }}",
            "{{ [name][0] }}",
            "{% if name == not [] %}{% endif %}",
        ] {
            assert!(render(text, "x").unwrap_err().text.contains("of its own"), "{text}");
        }
        assert!(render(&format!("{{{{ \"{}\" }}}}", "x".repeat(LITERAL_BYTES_MAX + 1)), "").is_err());
        assert_eq!(render("{{ name[0]|upper }}", "xy").unwrap(), "X");
        let filters = "{% for a in name %}{{ name|upper|lower|upper|lower|length }}{% endfor %}";
        let error = render(filters, &"x".repeat(2000)).unwrap_err();
        assert!(error.text.contains("more than 8 MiB"), "{error}");
        let many = vec!["name"; TAG_TOKENS_MAX].join(" ~ ");
        assert!(
            render(&format!("{{{{ {many} }}}}"), "x")
                .unwrap_err()
                .text
                .contains("more than 64")
        );
        let few = vec!["name"; TAG_TOKENS_MAX / 2].join(" ~ ");
        assert_eq!(
            render(&format!("{{{{ {few} }}}}"), "x").unwrap(),
            "x".repeat(TAG_TOKENS_MAX / 2)
        );
    }

    #[test]
    fn a_template_reads_no_file() {
        for text in ["{% include \"/etc/passwd\" %}", "{% extends \"/etc/passwd\" %}"] {
            assert!(render(text, "").is_err(), "{text}");
        }
    }
}
