//! The lines of an authentication agent: what a script says of a user, between the sentinels of a callout (WASD).
//!
//! | line | meaning |
//! |---|---|
//! | `000 text` | for the trace |
//! | `100 USER text` | the user has the right password; the text is a display name |
//! | `100 REMOTE-USER name` | the name of the user, if it is another one than that of the request |
//! | `100 GROUP name` | a group of the user |
//! | `100 …` | anything else says nothing of the user, such as WASD's `100 VMS-USER`; the first one is kept for the log |
//! | `401 reason` | there is no such user, or the password is another one |
//! | other codes | the agent has failed |

/// A line of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentLine {
    /// Says nothing of the user.
    Ignored,
    /// Has an unknown keyword, or a known one without the name that it needs.
    Unknown(String),
    /// The user is accepted.
    User,
    /// The user is accepted, under this name.
    RemoteUser(String),
    /// The user is in this group.
    Group(String),
    /// The user is refused; the reason is for the log.
    Refused(String),
    /// The agent has failed; the reason is for the log.
    Failed(String),
}

/// The answer of an agent, of all its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentAnswer {
    /// Whether a line has accepted the user.
    pub is_accepted: bool,
    /// The name of the user, if the agent has named one.
    pub name: Option<String>,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Why the user is refused.
    pub refused: Option<String>,
    /// Why the agent has failed.
    pub failed: Option<String>,
    /// The first line that is not known.
    pub unknown: Option<String>,
    /// Whether there was any line.
    pub is_heard: bool,
}

/// Groups that are kept of one answer; further ones are ignored.
const GROUPS_MAX: usize = 1000;

impl AgentLine {
    /// Parses a line without its newline. `None` if it does not begin with three digits and a blank.
    pub fn parse(line: &[u8]) -> Option<AgentLine> {
        let (code, text) = line.split_at_checked(3)?;
        if !code.iter().all(u8::is_ascii_digit) || !matches!(text.first(), None | Some(b' ')) {
            return None;
        }
        let text: String = String::from_utf8_lossy(text)
            .trim()
            .chars()
            .filter(|letter| !letter.is_control())
            .collect();
        let (keyword, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let rest = rest.trim().to_owned();
        Some(match (code, keyword.to_ascii_uppercase().as_str()) {
            (b"100", "USER") => AgentLine::User,
            (b"100", "REMOTE-USER") if !rest.is_empty() => AgentLine::RemoteUser(rest),
            (b"100", "GROUP") if !rest.is_empty() => AgentLine::Group(rest),
            (b"000", _) => AgentLine::Ignored,
            (b"100", _) => AgentLine::Unknown(text),
            (b"401", _) => AgentLine::Refused(text),
            _ => AgentLine::Failed(text),
        })
    }
}

impl AgentAnswer {
    /// Adds a line.
    pub fn take(&mut self, line: AgentLine) {
        self.is_heard = true;
        match line {
            AgentLine::Unknown(text) => drop(self.unknown.get_or_insert(text)),
            AgentLine::User => self.is_accepted = true,
            AgentLine::RemoteUser(name) => {
                self.is_accepted = true;
                self.name = Some(name);
            }
            AgentLine::Group(group) if self.groups.len() < GROUPS_MAX => self.groups.push(group),
            AgentLine::Group(_) | AgentLine::Ignored => {}
            AgentLine::Refused(reason) => self.refused = Some(reason),
            AgentLine::Failed(reason) => self.failed = Some(reason),
        }
    }

    /// Whether the agent has said anything of the user.
    pub fn is_complete(&self) -> bool {
        self.is_accepted || self.refused.is_some() || self.failed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_code_and_keyword() {
        for (line, expected) in [
            ("100 USER Ann Author", Some(AgentLine::User)),
            ("100 USER", Some(AgentLine::User)),
            ("100 REMOTE-USER ann", Some(AgentLine::RemoteUser("ann".to_owned()))),
            ("100 GROUP staff", Some(AgentLine::Group("staff".to_owned()))),
            ("100 GROUP", Some(AgentLine::Unknown("GROUP".to_owned()))),
            ("100 user", Some(AgentLine::User)),
            ("100 VMS-USER ANN", Some(AgentLine::Unknown("VMS-USER ANN".to_owned()))),
            ("100 USERR yes", Some(AgentLine::Unknown("USERR yes".to_owned()))),
            ("000 bind took 3 ms", Some(AgentLine::Ignored)),
            (
                "401 no such user\r",
                Some(AgentLine::Refused("no such user".to_owned())),
            ),
            ("401", Some(AgentLine::Refused(String::new()))),
            (
                "500 directory is down",
                Some(AgentLine::Failed("directory is down".to_owned())),
            ),
            ("200 OK", Some(AgentLine::Failed("OK".to_owned()))),
            ("NOOP:", None),
            ("1000 USER", None),
            ("10", None),
            ("", None),
        ] {
            assert_eq!(AgentLine::parse(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn an_answer_is_complete_once_a_line_has_decided() {
        let mut answer = AgentAnswer::default();
        answer.take(AgentLine::Ignored);
        answer.take(AgentLine::Group("staff".to_owned()));
        assert!(!answer.is_complete());
        answer.take(AgentLine::User);
        assert!(answer.is_complete() && answer.is_accepted);
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line: Vec<u8>) {
            let _ = AgentLine::parse(&line).map(|line| AgentAnswer::default().take(line));
        }
    }
}
