//! Rust source, split into code, comments and quoted text, so that a word in a message is not taken for a name.

/// A file of the tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    /// The path from the root of the tree.
    pub(crate) path: String,
    /// The content.
    pub(crate) text: String,
}

/// A Rust file. `code`, `comments` and `quoted` have the lines and columns of the text, with everything else blanked.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    /// Without comments and quoted text.
    pub(crate) code: String,
    /// Only the comments.
    pub(crate) comments: String,
    /// Only quoted text.
    pub(crate) quoted: String,
}

/// A name or a mark in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
    pub(crate) offset: usize,
}

impl Source {
    pub(crate) fn new(file: Text) -> Source {
        let kinds = Splitter::default().split(&file.text);
        let keep = |wanted: Kind| -> String {
            let letters = file.text.chars().zip(&kinds);
            letters
                .map(|(letter, kind)| if letter == '\n' || *kind == wanted { letter } else { ' ' })
                .collect()
        };
        Source {
            code: keep(Kind::Code),
            comments: keep(Kind::Comment),
            quoted: keep(Kind::Quoted),
            path: file.path,
            text: file.text,
        }
    }

    /// The code as names and single marks, in order.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        let (mut line, mut letters) = (1, self.code.char_indices().peekable());
        while let Some((start, letter)) = letters.next() {
            if letter == '\n' {
                line += 1;
            } else if !letter.is_whitespace() {
                let mut end = start + letter.len_utf8();
                while is_word(letter) && letters.peek().is_some_and(|(_, next)| is_word(*next)) {
                    end += letters.next().map_or(0, |(_, next)| next.len_utf8());
                }
                tokens.push(Token { text: &self.code[start..end], line, offset: start });
            }
        }
        tokens
    }

    /// Whether the whole file is a test, or a model that only tests use.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let is_named_so = ["tests.rs", "test.rs", "loom_model.rs"].contains(&name)
            || name.ends_with("_tests.rs")
            || name.ends_with("_test.rs");
        is_test_path(&self.path) || is_named_so
    }

    /// The line from which on everything is a test; past the end if the file has none. Files of tests are tests from the
    /// first line; elsewhere tests come last.
    pub(crate) fn first_test_line(&self) -> usize {
        if self.is_test() {
            return 1;
        }
        let mut for_tests = false;
        for (index, line) in self.code.lines().enumerate() {
            if line.starts_with("#[cfg(") && line.contains("test") {
                for_tests = true;
            } else if for_tests && line.trim_start().starts_with("mod ") && line.ends_with('{') {
                return index + 1;
            } else if !line.starts_with("#[") && !line.trim().is_empty() {
                for_tests = false;
            }
        }
        usize::MAX
    }
}

/// Whether a file lies in a directory of tests.
pub(crate) fn is_test_path(path: &str) -> bool {
    path.contains("/tests/") || path.starts_with("crates/sluice-testing/")
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Code,
    Comment,
    Quoted,
}

/// Finds for each letter of a Rust file the kind of text that it belongs to.
#[derive(Default)]
struct Splitter {
    kinds: Vec<Kind>,
}

impl Splitter {
    fn split(mut self, text: &str) -> Vec<Kind> {
        let letters: Vec<char> = text.chars().collect();
        while self.kinds.len() < letters.len() {
            self.next(&letters);
        }
        self.kinds
    }

    fn next(&mut self, all: &[char]) {
        let at = self.kinds.len();
        let rest = &all[at..];
        let after_word = at > 0 && is_word(all[at - 1]) && !matches!(all[at - 1], 'b' | 'c');
        match rest {
            ['/', '/', ..] => self.take(line_length(rest), Kind::Comment),
            ['/', '*', ..] => self.take(block_length(rest), Kind::Comment),
            ['r', '"' | '#', ..] if !after_word && raw_length(rest).is_some() => {
                self.take(raw_length(rest).unwrap_or(1), Kind::Quoted);
            }
            ['"', ..] => self.take(quoted_length(rest, '"'), Kind::Quoted),
            ['\'', '\\', ..] | ['\'', _, '\'', ..] => self.take(quoted_length(rest, '\''), Kind::Quoted),
            _ => self.take(1, Kind::Code),
        }
    }

    fn take(&mut self, count: usize, kind: Kind) {
        self.kinds.extend(std::iter::repeat_n(kind, count));
    }
}

fn line_length(rest: &[char]) -> usize {
    rest.iter().position(|letter| *letter == '\n').unwrap_or(rest.len())
}

/// Block comments nest.
fn block_length(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of `r"…"` or `r#"…"#`. `None` for a raw name such as `r#type`.
fn raw_length(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|letter| **letter == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let inside = &rest[2 + hashes..];
    let length = inside.windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| 2 + hashes + length + close.len()))
}

fn quoted_length(rest: &[char], close: char) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            letter if letter == close => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A source for a test.
#[cfg(test)]
pub(crate) fn sample(path: &str, text: &str) -> Source {
    Source::new(Text { path: path.into(), text: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_quoted_text_are_distinguished() {
        let source = sample(
            "a.rs",
            "let a = \"un//safe \\\" x\"; // note \"here\nlet b = r#\"raw \" // in\"#; /* one /* two */ three */ fn c<'a>(d: char) { d == '\"' || d == '\\'' }",
        );
        let code = source.code.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(code, "let a = ; let b = ; fn c<'a>(d: char) { d == || d == }");
        let comments = source.comments.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(comments, "// note \"here /* one /* two */ three */");
    }

    #[test]
    fn tokens_know_their_line() {
        let source = sample("a.rs", "fn é_1() {\n  x::y\n}");
        let tokens: Vec<_> = source
            .tokens()
            .iter()
            .map(|token| (token.text.to_owned(), token.line))
            .collect();
        let expected = [
            ("fn", 1),
            ("é_1", 1),
            ("(", 1),
            (")", 1),
            ("{", 1),
            ("x", 2),
            (":", 2),
            (":", 2),
            ("y", 2),
            ("}", 3),
        ];
        assert_eq!(tokens, expected.map(|(text, line)| (text.to_owned(), line)));
    }

    #[test]
    fn tests_begin_where_their_module_does() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod helpers;\nfn b() {}\n#[cfg(all(test, unix))]\n#[allow(x)]\nmod tests {\n}\n";
        assert_eq!(sample("crates/a/src/b.rs", text).first_test_line(), 7);
        assert_eq!(sample("crates/a/tests/it/b.rs", text).first_test_line(), 1);
        assert_eq!(sample("crates/a/src/b.rs", "fn a() {}").first_test_line(), usize::MAX);
    }
}
