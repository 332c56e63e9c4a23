//! Lists of words: a value must fit one of them, and none with a `!` before it.

use std::fmt;

use http::Method;

use crate::rule::pattern::{Wildcard, covers};

/// A word of a list: a method, a network, a name with stars.
pub(super) trait Word: Sized + fmt::Display {
    /// Parses a word without its `!`; the error says what to write instead.
    fn read(text: &str) -> Result<Self, String>;

    /// Whether it fits everything that the other fits.
    fn covers(&self, other: &Self) -> bool;
}

/// Any of the words `of`, and none of the words `but`. An empty list fits everything.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AnyOf<T> {
    of: Vec<T>,
    but: Vec<T>,
}

// Not derived, because that would require `T: Default`.
impl<T> Default for AnyOf<T> {
    fn default() -> AnyOf<T> {
        AnyOf { of: Vec::new(), but: Vec::new() }
    }
}

impl<T: Word> AnyOf<T> {
    /// Parses a list; the error names the first invalid word, or says that nothing can fit.
    pub(super) fn read(words: impl IntoIterator<Item: AsRef<str>>) -> Result<AnyOf<T>, String> {
        let mut any = AnyOf::default();
        for word in words {
            let word = word.as_ref();
            let (list, text) = match word.strip_prefix('!') {
                Some(text) => (&mut any.but, text),
                None => (&mut any.of, word),
            };
            list.push(T::read(text).map_err(|message| format!("\"{word}\": {message}"))?);
        }
        if any.is_empty() {
            return Err("an empty list fits nothing: leave it out for anything".to_owned());
        }
        let is_excluded = |word: &T| any.but.iter().any(|but| but.covers(word));
        if !any.of.is_empty() && any.of.iter().all(is_excluded) {
            return Err(
                "can never hold, because what it asks for is excluded by a \"!\": remove one of them".to_owned(),
            );
        }
        Ok(any)
    }
}

impl<T> AnyOf<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty() && self.but.is_empty()
    }

    /// Whether a value fits the list; `test` says whether it fits a word.
    pub(super) fn fits(&self, test: impl Fn(&T) -> bool) -> bool {
        (self.of.is_empty() || self.of.iter().any(&test)) && !self.but.iter().any(&test)
    }
}

/// For people: `GET or POST but not HEAD`.
impl<T: fmt::Display> fmt::Display for AnyOf<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |words: &[T]| {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            words.join(" or ")
        };
        match (self.of.is_empty(), self.but.is_empty()) {
            (_, true) => out.write_str(&listed(&self.of)),
            (true, false) => write!(out, "other than {}", listed(&self.but)),
            (false, false) => write!(out, "{} but not {}", listed(&self.of), listed(&self.but)),
        }
    }
}

impl Word for Method {
    fn read(text: &str) -> Result<Method, String> {
        let upper = text.to_ascii_uppercase();
        match Method::from_bytes(text.as_bytes()) {
            Err(_) => Err("a method is a word, as in \"GET\"".to_owned()),
            // RFC 9110 §9.1; a method in lower case is certainly a mistake.
            Ok(_) if upper != text => Err(format!("methods are case-sensitive: write \"{upper}\"")),
            Ok(method) => Ok(method),
        }
    }

    fn covers(&self, other: &Method) -> bool {
        self == other
    }
}

/// A text with stars, compared without regard to case.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Glob {
    text: String,
    lower: Wildcard,
}

impl Glob {
    pub(super) fn new(text: &str) -> Glob {
        Glob {
            text: text.to_owned(),
            lower: Wildcard::new(&text.to_ascii_lowercase()),
        }
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        self.lower.matches(&text.to_ascii_lowercase()).is_some()
    }
}

impl Word for Glob {
    fn read(text: &str) -> Result<Glob, String> {
        Ok(Glob::new(text))
    }

    fn covers(&self, other: &Glob) -> bool {
        covers(&self.text.to_ascii_lowercase(), &other.text.to_ascii_lowercase())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(words: &[&str], text: &str) -> bool {
        AnyOf::<Glob>::read(words.iter().copied())
            .unwrap()
            .fits(|glob| glob.fits(text))
    }

    #[test]
    fn one_must_fit_and_none_that_is_excluded() {
        assert!(fits(&["*bot*", "crawler"], "GoogleBot/2"));
        assert!(!fits(&["*bot*", "!google*"], "GoogleBot/2"));
        assert!(fits(&["!google*"], "curl"));
        assert!(!fits(&["a"], "b"));
    }

    #[test]
    fn lists_that_cannot_fit_are_refused() {
        for words in [&["GET", "!GET"][..], &["!PUT", "PUT"]] {
            let error = AnyOf::<Method>::read(words.iter().copied()).unwrap_err();
            assert!(error.starts_with("can never hold"), "{error}");
        }
        assert!(AnyOf::<Glob>::read(["*.a.org", "!*.org"]).is_err());
        assert!(AnyOf::<Glob>::read(["*.org", "!*.a.org"]).is_ok());
        assert!(AnyOf::<Method>::read([""; 0]).is_err());
    }

    #[test]
    fn lists_are_shown_in_words() {
        let shown = |words: &[&str]| AnyOf::<Glob>::read(words.iter().copied()).unwrap().to_string();
        assert_eq!(shown(&["a", "b*"]), "a or b*");
        assert_eq!(shown(&["!a", "!b"]), "other than a or b");
        assert_eq!(shown(&["*", "!b"]), "* but not b");
    }

    #[test]
    fn methods_are_case_sensitive() {
        assert!(Method::read("get").unwrap_err().ends_with("write \"GET\""));
        assert!(Method::read("G T").unwrap_err().contains("a method is a word"));
    }
}
