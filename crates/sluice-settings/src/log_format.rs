//! The form of a line of the access log: what an administrator wrote, read once into a list of items.
//!
//! Here: the names of whole forms and the notation of Apache's mod_log_config, with a message and a place for every mistake.
//! Not here: writing a line (`write::log`). It stands beside the path: settings carry it, `check` reads it without a server.

use std::fmt;

use http::HeaderName;
use http::header::{HOST, REFERER, USER_AGENT};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// The forms that have names, beside JSON, in the notation itself. Bytes are `%B`, so that they are a number in every line.
const NAMED: [(&str, &str); 3] = [
    ("common", r#"%h %l %u %t "%r" %>s %B"#),
    (
        "combined",
        r#"%h %l %u %t "%r" %>s %B "%{Referer}i" "%{User-Agent}i" %{UNIQUE_ID}e"#,
    ),
    (
        "vhost-combined",
        r#"%v:%p %h %l %u %t "%r" %>s %B "%{Referer}i" "%{User-Agent}i" %{UNIQUE_ID}e"#,
    ),
];

/// The form whose lines are JSON objects.
const JSON: &str = "json";

/// The time as Apache's `%t` writes it.
const CLF_TIME: &str = "[%d/%b/%Y:%H:%M:%S %z]";

/// Statuses that a condition may list; more are a slip of the pen.
const STATUSES_MAX: usize = 64;

/// The form of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// As it was written: a name or a format string.
    text: String,
    pub form: Form,
    /// Fields of requests that a line needs, in the order in which items number them.
    pub request_fields: Vec<HeaderName>,
    /// As above, of responses.
    pub response_fields: Vec<HeaderName>,
    /// A line needs the file behind the path.
    pub names_file: bool,
}

/// How a line is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON object; its request fields are Host, Referer and User-Agent.
    Json,
    /// One after the other.
    Items(Vec<Item>),
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// What stands between directives; no newline, and of control characters only the tab.
    Literal(Box<str>),
    /// What is never known here (`%l`).
    Unknown,
    Client,
    /// Who is connected: a proxy, where one has told of the client.
    Peer,
    /// Or the address, without a name.
    ClientName,
    Server,
    User,
    Time(Moment, TimeForm),
    RequestLine,
    Method,
    Path,
    Query,
    Protocol,
    Status,
    BodyBytes,
    /// As above, but nothing is `-`.
    BodyBytesOrDash,
    Duration(TimeUnit),
    /// The site's name as it is configured.
    Site,
    /// The host that was asked for: this request field, without its port.
    Host(usize),
    ServerPort,
    ClientPort,
    ProcessId,
    RequestField(usize),
    ResponseField(usize),
    Id,
    File,
    Handler,
    ConnectionState,
    /// Only for some statuses, else `-`.
    When(Box<Condition>, Box<Item>),
}

/// For which statuses an item is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    statuses: Vec<u16>,
    /// For all but these.
    is_negated: bool,
}

impl Condition {
    pub fn holds(&self, status: u16) -> bool {
        self.statuses.contains(&status) != self.is_negated
    }
}

/// Which moment of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Begin,
    End,
}

/// How a moment is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// As strftime(3) does, in the server's time zone.
    Text(Box<str>),
    /// Since 1970.
    Since(TimeUnit),
    /// The part of the second, with leading zeros.
    Fraction(TimeUnit),
}

/// What time is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    Seconds,
    Millis,
    Micros,
}

/// What is wrong with a format, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatMistake {
    /// The character, from 1.
    pub at: usize,
    /// What is wrong there and what to write instead.
    pub text: String,
}

impl fmt::Display for FormatMistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at character {}: {}", self.at, self.text)
    }
}

impl std::error::Error for FormatMistake {}

impl fmt::Display for LogFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Default for LogFormat {
    /// Apache's combined form, then the UNIQUE_ID.
    fn default() -> LogFormat {
        LogFormat::parse("combined").expect("the named forms are in order")
    }
}

impl LogFormat {
    /// Reads the name of a form (`common`, `combined`, `vhost-combined`, `json`) or a format string.
    ///
    /// # Errors
    /// The first mistake in a format string; whoever wrote it mends it.
    pub fn parse(text: &str) -> Result<LogFormat, FormatMistake> {
        if text == JSON {
            return Ok(LogFormat {
                text: text.to_owned(),
                form: Form::Json,
                request_fields: vec![HOST, REFERER, USER_AGENT],
                response_fields: Vec::new(),
                names_file: false,
            });
        }
        let named = NAMED.iter().find(|(name, _)| *name == text);
        let mut reader = Reader::new(named.map_or(text, |(_, notation)| notation));
        let items = reader.items()?;
        if !items.iter().any(|item| !matches!(item, Item::Literal(_))) {
            return Err(FormatMistake {
                at: 1,
                text: r#"must be "common", "combined", "vhost-combined", "json", or a format string such as '%h %t "%r" %>s %B'"#
                    .to_owned(),
            });
        }
        Ok(LogFormat {
            text: text.to_owned(),
            form: Form::Items(items),
            request_fields: reader.request_fields,
            response_fields: reader.response_fields,
            names_file: reader.names_file,
        })
    }
}

/// A format string that is being read.
struct Reader<'a> {
    text: &'a str,
    /// Bytes that are read.
    at: usize,
    request_fields: Vec<HeaderName>,
    response_fields: Vec<HeaderName>,
    names_file: bool,
}

/// What stands between the `%` of a directive and its letter.
#[derive(Default)]
struct Modifiers {
    statuses: Vec<u16>,
    is_negated: bool,
    argument: Option<String>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        Reader {
            text,
            at: 0,
            request_fields: Vec::new(),
            response_fields: Vec::new(),
            names_file: false,
        }
    }

    fn items(&mut self) -> Result<Vec<Item>, FormatMistake> {
        let mut items = Vec::new();
        let mut literal = String::new();
        while let Some(letter) = self.next() {
            match letter {
                '%' if self.peek() == Some('%') => {
                    self.next();
                    literal.push('%');
                }
                '%' => {
                    if !literal.is_empty() {
                        items.push(Item::Literal(std::mem::take(&mut literal).into()));
                    }
                    items.push(self.directive()?);
                }
                // As Apache has it: a tab or a quote may be written with a backslash.
                '\\' if self.peek() == Some('t') => {
                    self.next();
                    literal.push('\t');
                }
                '\\' if matches!(self.peek(), Some('"' | '\\')) => literal.extend(self.next()),
                '\\' if self.peek() == Some('n') => return Err(self.mistake(self.at - 1, NEWLINE)),
                '\n' | '\r' => return Err(self.mistake(self.at - 1, NEWLINE)),
                control if control.is_control() && control != '\t' => {
                    let begin = self.at - control.len_utf8();
                    return Err(self.mistake(begin, "a control character has no place in a line"));
                }
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            items.push(Item::Literal(literal.into()));
        }
        Ok(items)
    }

    /// What follows a `%`.
    fn directive(&mut self) -> Result<Item, FormatMistake> {
        let begin = self.at - 1;
        let mut modifiers = Modifiers::default();
        loop {
            let Some(letter) = self.next() else {
                return Err(self.mistake(begin, "a directive without its letter; a percent sign is written %%"));
            };
            match letter {
                // The first request and the last are one here: a script's local redirect makes no other.
                '<' | '>' | ',' => {}
                '!' => modifiers.is_negated = true,
                '0'..='9' => self.status(&mut modifiers)?,
                '{' => modifiers.argument = Some(self.argument(begin)?),
                letter => return self.item(begin, letter, modifiers),
            }
        }
    }

    /// A status of a condition, of which one digit is read.
    fn status(&mut self, modifiers: &mut Modifiers) -> Result<(), FormatMistake> {
        let begin = self.at - 1;
        while self.peek().is_some_and(|letter| letter.is_ascii_digit()) {
            self.next();
        }
        match self.text[begin..self.at].parse() {
            Ok(status @ 100..=599) if modifiers.statuses.len() < STATUSES_MAX => {
                modifiers.statuses.push(status);
                Ok(())
            }
            Ok(100..=599) => Err(self.mistake(begin, "so many statuses have no place in one condition")),
            _ => Err(self.mistake(
                begin,
                "a status has three digits, from 100 to 599, as in %400,501{User-Agent}i",
            )),
        }
    }

    /// What stands in braces, of which the first is read.
    fn argument(&mut self, begin: usize) -> Result<String, FormatMistake> {
        let Some(length) = self.text[self.at..].find('}') else {
            return Err(self.mistake(begin, "a { without its }"));
        };
        let argument = self.text[self.at..self.at + length].to_owned();
        self.at += length + 1;
        Ok(argument)
    }

    fn item(&mut self, begin: usize, letter: char, modifiers: Modifiers) -> Result<Item, FormatMistake> {
        let argument = modifiers.argument.as_deref();
        let item = match (letter, argument) {
            ('h', None) => Item::ClientName,
            ('a', None) => Item::Client,
            ('a', Some("c")) => Item::Peer,
            ('A', None) => Item::Server,
            ('l', None) => Item::Unknown,
            ('u', None) => Item::User,
            ('t', argument) => self.time(begin, argument.unwrap_or_default())?,
            ('r', None) => Item::RequestLine,
            ('m', None) => Item::Method,
            ('U', None) => Item::Path,
            ('q', None) => Item::Query,
            ('H', None) => Item::Protocol,
            ('s', None) => Item::Status,
            ('B' | 'O', None) => Item::BodyBytes,
            ('b', None) => Item::BodyBytesOrDash,
            ('D', None) | ('T', Some("us")) => Item::Duration(TimeUnit::Micros),
            ('T', Some("ms")) => Item::Duration(TimeUnit::Millis),
            ('T', None | Some("s")) => Item::Duration(TimeUnit::Seconds),
            ('v', None) => Item::Site,
            ('V', None) => Item::Host(number(&mut self.request_fields, HOST)),
            ('p', None | Some("canonical" | "local")) => Item::ServerPort,
            ('p', Some("remote")) => Item::ClientPort,
            ('P', None | Some("pid")) => Item::ProcessId,
            ('i', Some(name)) => {
                let name = self.field(begin, name)?;
                Item::RequestField(number(&mut self.request_fields, name))
            }
            ('o', Some(name)) => {
                let name = self.field(begin, name)?;
                Item::ResponseField(number(&mut self.response_fields, name))
            }
            ('L', None) | ('e', Some("UNIQUE_ID")) => Item::Id,
            ('f', None) => {
                self.names_file = true;
                Item::File
            }
            ('R', None) => Item::Handler,
            ('X', None) => Item::ConnectionState,
            (letter, _) => return Err(self.mistake(begin, &unknown(letter, argument))),
        };
        if modifiers.statuses.is_empty() {
            return match modifiers.is_negated {
                false => Ok(item),
                true => Err(self.mistake(begin, "a ! stands before statuses, as in %!200,304{Referer}i")),
            };
        }
        let condition = Condition {
            statuses: modifiers.statuses,
            is_negated: modifiers.is_negated,
        };
        Ok(Item::When(Box::new(condition), Box::new(item)))
    }

    fn time(&self, begin: usize, argument: &str) -> Result<Item, FormatMistake> {
        let (moment, form) = match argument.strip_prefix("end:") {
            Some(form) => (Moment::End, form),
            None => (Moment::Begin, argument.strip_prefix("begin:").unwrap_or(argument)),
        };
        let form = match form {
            "" => TimeForm::Text(CLF_TIME.into()),
            "sec" => TimeForm::Since(TimeUnit::Seconds),
            "msec" => TimeForm::Since(TimeUnit::Millis),
            "usec" => TimeForm::Since(TimeUnit::Micros),
            "msec_frac" => TimeForm::Fraction(TimeUnit::Millis),
            "usec_frac" => TimeForm::Fraction(TimeUnit::Micros),
            text => {
                check_strftime(text).map_err(|message| self.mistake(begin, &message))?;
                TimeForm::Text(text.into())
            }
        };
        Ok(Item::Time(moment, form))
    }

    fn field(&self, begin: usize, name: &str) -> Result<HeaderName, FormatMistake> {
        HeaderName::try_from(name)
            .map_err(|_| self.mistake(begin, &format!("\"{}\" is no name of a field", name.escape_debug())))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// A mistake at a byte of the text.
    fn mistake(&self, at: usize, text: &str) -> FormatMistake {
        FormatMistake {
            at: 1 + self.text[..at].chars().count(),
            text: text.to_owned(),
        }
    }
}

const NEWLINE: &str = "an exchange has one line: its end is added by itself";

/// The number of a field among those that are needed; it is added if it is not there.
fn number(fields: &mut Vec<HeaderName>, name: HeaderName) -> usize {
    fields.iter().position(|known| *known == name).unwrap_or_else(|| {
        fields.push(name);
        fields.len() - 1
    })
}

/// Refuses what jiff cannot write, and what changes within a second, for which the text is kept.
fn check_strftime(form: &str) -> Result<(), String> {
    let write = |nanosecond| {
        let time = Timestamp::new(1_000_000_000, nanosecond).unwrap_or_default();
        strtime::format(form, &time.to_zoned(TimeZone::UTC))
    };
    match (write(0), write(123_456_789)) {
        (Ok(whole), Ok(part)) if whole == part => Ok(()),
        (Ok(_), Ok(_)) => {
            Err("parts of a second are written %{msec_frac}t or %{usec_frac}t, after the rest".to_owned())
        }
        (Err(error), _) | (_, Err(error)) => Err(format!("\"{}\": {error}", form.escape_debug())),
    }
}

/// The message about a directive that does not exist, or not in this way.
fn unknown(letter: char, argument: Option<&str>) -> String {
    let shown = match argument {
        Some(argument) => format!("%{{{}}}{letter}", argument.escape_debug()),
        None => format!("%{}", letter.escape_debug()),
    };
    let mend = match letter {
        'i' | 'o' => "it needs the name of a field, as in %{User-Agent}i",
        'e' => "of variables only %{UNIQUE_ID}e is known to the log",
        'I' | 'S' => "bytes of requests are not counted; %B counts those of the response's body",
        'T' => "the units are %{s}T, %{ms}T and %{us}T",
        'p' => "the ports are %p, %{local}p and %{remote}p",
        'a' => "the addresses are %a and %{c}a of the client, %A of the server",
        _ if argument.is_some() => "no such directive takes an argument",
        _ => {
            "the directives are %h %a %A %l %u %t %r %m %U %q %H %s %b %B %O %D %T %v %V %p %P %{Name}i %{Name}o %L %f %R %X %%"
        }
    };
    format!("{shown} is no directive: {mend}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn items(text: &str) -> Vec<Item> {
        match LogFormat::parse(text)
            .unwrap_or_else(|mistake| panic!("{text}: {mistake}"))
            .form
        {
            Form::Items(items) => items,
            Form::Json => panic!("{text} is JSON"),
        }
    }

    #[track_caller]
    fn assert_mistake(text: &str, at: usize, words: &str) {
        let mistake = LogFormat::parse(text).expect_err(text);
        assert!(mistake.at == at && mistake.text.contains(words), "{text:?}: {mistake}");
    }

    #[test]
    fn text_and_directives_alternate() {
        let literal = |text: &str| Item::Literal(text.into());
        assert_eq!(
            items(r#"%h "%r"%>s 100%% é\t\"\\\x"#),
            [
                Item::ClientName,
                literal(" \""),
                Item::RequestLine,
                literal("\""),
                Item::Status,
                literal(" 100% é\t\"\\\\x"),
            ]
        );
    }

    #[test]
    fn fields_are_numbered_once_each() {
        let format = LogFormat::parse("%{Cookie}i %{referer}i %{REFERER}i %V %{Location}o").unwrap();
        assert_eq!(format.request_fields, ["cookie", "referer", "host"]);
        assert_eq!(format.response_fields, ["location"]);
        assert!(!format.names_file && LogFormat::parse("%f").unwrap().names_file);
        assert_eq!(
            LogFormat::parse("common").unwrap().request_fields.len(),
            0,
            "a form that names none keeps none"
        );
    }

    #[test]
    fn conditions_stand_before_what_they_are_about() {
        let [Item::When(condition, item)] = &items("%400,501{User-Agent}i")[..] else {
            panic!("no condition")
        };
        assert_eq!(**item, Item::RequestField(0));
        assert!(condition.holds(400) && condition.holds(501) && !condition.holds(200));
        let [Item::When(condition, _)] = &items("%!200,304,302>s")[..] else {
            panic!("no condition")
        };
        assert!(!condition.holds(200) && condition.holds(404));
    }

    #[test]
    fn times_are_text_counts_or_parts_of_a_second() {
        let time = |moment, form| vec![Item::Time(moment, form)];
        assert_eq!(items("%t"), time(Moment::Begin, TimeForm::Text(CLF_TIME.into())));
        assert_eq!(items("%{end:}t"), time(Moment::End, TimeForm::Text(CLF_TIME.into())));
        assert_eq!(
            items("%{begin:msec}t"),
            time(Moment::Begin, TimeForm::Since(TimeUnit::Millis))
        );
        assert_eq!(
            items("%{end:usec_frac}t"),
            time(Moment::End, TimeForm::Fraction(TimeUnit::Micros))
        );
        assert_eq!(items("%{%F %T}t"), time(Moment::Begin, TimeForm::Text("%F %T".into())));
        assert_mistake("%h %{%F.%f}t", 4, "%{msec_frac}t");
        assert_mistake("%{%!}t", 1, "%!");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        assert_mistake("%h %y", 4, "%y is no directive: the directives are");
        assert_mistake("é%é", 2, "%é is no directive");
        assert_mistake("%h %", 4, "%%");
        assert_mistake("%h %{Referer", 4, "without its }");
        assert_mistake("%h %{a b}i", 4, "\"a b\" is no name of a field");
        assert_mistake("%i", 1, "needs the name of a field");
        assert_mistake("%{PATH}e", 1, "UNIQUE_ID");
        assert_mistake("%h %40s", 5, "three digits");
        assert_mistake("%999s", 2, "three digits");
        assert_mistake("%!s", 1, "%!200,304");
        assert_mistake("%{h}T", 1, "%{ms}T");
        assert_mistake("%{x}r", 1, "takes an argument");
        assert_mistake("%I", 1, "not counted");
        assert_mistake("%h\n%r", 3, "one line");
        assert_mistake(r"%h\n%r", 3, "one line");
        assert_mistake("%h\u{1b}", 3, "control character");
        assert_mistake("comboned", 1, "vhost-combined");
        assert_mistake("", 1, "vhost-combined");
    }

    #[test]
    fn named_forms_keep_their_names() {
        for name in ["common", "combined", "vhost-combined", "json", "%h %r"] {
            assert_eq!(LogFormat::parse(name).unwrap().to_string(), name);
        }
    }

    proptest! {
        /// Whatever is written: it is read or refused at a place that is there, and no literal tears a line.
        #[test]
        fn no_text_panics_or_tears_a_line(text in "([%{}!<>,0-9a-zA-Z:\\\\\"\\n\\t é]|%\\{[a-zA-Z%_: ]{0,8}\\}[a-zA-Z]){0,20}") {
            match LogFormat::parse(&text) {
                Ok(LogFormat { form: Form::Items(items), .. }) => {
                    for item in items {
                        if let Item::Literal(text) = item {
                            prop_assert!(!text.contains(|letter: char| letter.is_control() && letter != '\t'));
                        }
                    }
                }
                Ok(_) => {}
                Err(mistake) => prop_assert!((1..=1 + text.chars().count()).contains(&mistake.at), "{}", mistake),
            }
        }
    }
}
