//! The lines of an authentication agent.
//!
//! Properties: a user is accepted only by a line `100 USER` or `100 REMOTE-USER`; a refusal or a failure stays one, whatever comes after it;
//! names and reasons have no control characters; lines of other codes and lines that are none change nothing for the better.

use sluice_gateway::{AgentAnswer, AgentLine};

use crate::input::Input;

/// Groups that are kept.
const GROUPS_MAX: usize = 1000;

/// Input: lines.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut answer = AgentAnswer::default();
    let mut lines = Vec::new();
    while !input.is_empty() {
        let line = input.line();
        lines.push(line);
        let Some(parsed) = AgentLine::parse(line) else {
            assert!(!is_accepting(line), "{line:?}");
            continue;
        };
        let before = answer.clone();
        answer.take(parsed);
        assert_eq!(
            !before.is_accepted && answer.is_accepted,
            !before.is_accepted && is_accepting(line),
            "{line:?}"
        );
        assert!(answer.refused.is_some() || before.refused.is_none(), "{line:?}");
        assert!(answer.failed.is_some() || before.failed.is_none(), "{line:?}");
        assert!(answer.is_complete() || !before.is_complete());
    }
    assert_eq!(answer.is_accepted, lines.iter().any(|line| is_accepting(line)));
    assert!(answer.groups.len() <= GROUPS_MAX);
    let texts = answer
        .groups
        .iter()
        .chain(&answer.name)
        .chain(&answer.refused)
        .chain(&answer.failed);
    assert!(
        texts.into_iter().all(|text| !text.chars().any(char::is_control)),
        "{answer:?}"
    );
    assert!(answer.name.as_deref() != Some("") && !answer.groups.contains(&String::new()));
}

/// Whether a line accepts the user.
fn is_accepting(line: &[u8]) -> bool {
    let Some(text) = line.strip_prefix(b"100 ") else {
        return false;
    };
    let text: String = String::from_utf8_lossy(text)
        .trim()
        .chars()
        .filter(|letter| !letter.is_control())
        .collect();
    let (keyword, rest) = text.split_once(' ').unwrap_or((&text, ""));
    keyword.eq_ignore_ascii_case("USER") || keyword.eq_ignore_ascii_case("REMOTE-USER") && !rest.trim().is_empty()
}
