//! Reading a page: its fenced blocks, and the comment before each that says what a test does with it.
//!
//! A block of shell commands without such a comment is a mistake, because nothing would show that it works. Other blocks need none.

/// A fenced block with a comment.
#[derive(Debug)]
pub(crate) struct Block {
    /// The line of its fence, from 1.
    pub line: usize,
    /// The lines.
    pub text: String,
    /// The use that the test makes of it.
    pub action: Action,
    /// Texts that its output contains.
    pub prints: Vec<String>,
    /// Whether the reader has ended the server before.
    pub has_ended_server: bool,
}

/// The use of a block in the test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Run,
    Serve,
    Save(String),
    Edit { file: String, from: String, end: String },
    Skip,
}

const MARK: &str = "<!-- example: ";

/// The blocks of a page. The error begins with a line number.
pub(crate) fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut mark = None;
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(text) = line.strip_prefix(MARK) {
            mark = Some(text.trim_end_matches("-->").trim());
        } else if let Some(language) = line.trim_start().strip_prefix("```") {
            let inside = lines.by_ref().map(|(_, line)| line);
            let text: String = inside
                .take_while(|line| !line.trim_start().starts_with("```"))
                .map(|line| format!("{line}\n"))
                .collect();
            match mark.take() {
                Some(mark) => blocks.push(parse(index + 1, text, mark)?),
                None if language == "sh" => return Err(format!("{}: no comment \"{MARK}… -->\"", index + 1)),
                None => {}
            }
        } else if mark.is_some() {
            return Err(format!(
                "{}: \"{MARK}\" must stand on the line before a block",
                index + 1
            ));
        }
    }
    Ok(blocks)
}

fn parse(line: usize, text: String, mark: &str) -> Result<Block, String> {
    let mut block = Block {
        line,
        text,
        action: Action::Skip,
        prints: Vec::new(),
        has_ended_server: false,
    };
    let unknown = || format!("{line}: unknown example: {mark}");
    for part in mark.split("; ") {
        let (word, rest) = part.split_once(' ').unwrap_or((part, ""));
        match word {
            "run" => block.action = Action::Run,
            "serve" => block.action = Action::Serve,
            "save" => block.action = Action::Save(rest.to_owned()),
            "edit" => block.action = parse_edit(rest).ok_or_else(unknown)?,
            "prints" => block.prints.push(rest.to_owned()),
            "end" => block.has_ended_server = true,
            "skip" if !rest.is_empty() => block.action = Action::Skip,
            _ => return Err(unknown()),
        }
    }
    Ok(block)
}

fn parse_edit(text: &str) -> Option<Action> {
    let (file, range) = text.split_once(", ")?;
    let (from, end) = range.split_once(" to ")?;
    Some(Action::Edit {
        file: file.to_owned(),
        from: from.to_owned(),
        end: end.to_owned(),
    })
}

#[test]
fn shell_commands_without_a_comment_are_a_mistake() {
    let page = "text\n```sh\nls\n```\n";
    assert!(blocks(page).unwrap_err().starts_with("2: no comment"));
    assert!(blocks("```toml\na = 1\n```\n").unwrap().is_empty());
    assert!(blocks("<!-- example: run -->\n\n```sh\nls\n```\n").is_err());
    assert!(blocks("<!-- example: rum -->\n```sh\nls\n```\n").is_err());
}

#[test]
fn comments_say_what_happens() {
    let page = "<!-- example: end; run; prints a b; prints c -->\n```sh\nls\n```\n<!-- example: edit f, [[a]] to [b] -->\n```toml\nx\n```\n";
    let blocks = blocks(page).unwrap();
    assert_eq!((blocks[0].line, blocks[0].text.as_str()), (2, "ls\n"));
    assert_eq!(blocks[0].action, Action::Run);
    assert_eq!(blocks[0].prints, ["a b", "c"]);
    assert!(blocks[0].has_ended_server);
    let (file, from, end) = ("f".into(), "[[a]]".into(), "[b]".into());
    assert_eq!(blocks[1].action, Action::Edit { file, from, end });
}
