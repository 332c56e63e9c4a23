//! The parser of format strings, with a message and a position for every mistake.

use http::HeaderName;
use http::header::HOST;
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::log_format::{FormatMistake, Item, StatusFilter, TimeFormat, TimePoint, TimeUnit};

/// The time in the format of Apache's `%t`.
pub(super) const CLF_TIME: &str = "[%d/%b/%Y:%H:%M:%S %z]";

/// Most statuses of one item; more are a mistake.
const STATUSES_MAX: usize = 64;

const NEWLINE: &str = "an exchange has one line: its end is added automatically";

#[derive(Default)]
pub(super) struct Parsed {
    pub(super) items: Vec<Item>,
    pub(super) request_fields: Vec<HeaderName>,
    pub(super) response_fields: Vec<HeaderName>,
    pub(super) names_file: bool,
}

/// A format string and the position in it.
pub(super) struct Parser<'a> {
    text: &'a str,
    /// Bytes that have been read.
    at: usize,
    parsed: Parsed,
}

/// The text between the `%` of a directive and its letter.
#[derive(Default)]
struct Modifiers {
    statuses: Vec<u16>,
    is_negated: bool,
    argument: Option<String>,
}

impl<'a> Parser<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Parsed, FormatMistake> {
        let mut parser = Parser { text, at: 0, parsed: Parsed::default() };
        parser.parsed.items = parser.items()?;
        Ok(parser.parsed)
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
                // As in Apache, a tab or a quote may be written with a backslash.
                '\\' if self.peek() == Some('t') => {
                    self.next();
                    literal.push('\t');
                }
                '\\' if matches!(self.peek(), Some('"' | '\\')) => literal.extend(self.next()),
                '\\' if self.peek() == Some('n') => return Err(self.mistake(self.at - 1, NEWLINE)),
                '\n' | '\r' => return Err(self.mistake(self.at - 1, NEWLINE)),
                control if control.is_control() && control != '\t' => {
                    let begin = self.at - control.len_utf8();
                    return Err(self.mistake(begin, "a line must not contain control characters"));
                }
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            items.push(Item::Literal(literal.into()));
        }
        Ok(items)
    }

    /// Parses a directive after its `%`.
    fn directive(&mut self) -> Result<Item, FormatMistake> {
        let begin = self.at - 1;
        let mut modifiers = Modifiers::default();
        loop {
            let Some(letter) = self.next() else {
                return Err(self.mistake(begin, "a directive without its letter; a percent sign is written %%"));
            };
            match letter {
                // The original and the final request are the same here: a script's local redirect makes no new one.
                '<' | '>' | ',' => {}
                '!' => modifiers.is_negated = true,
                '0'..='9' => self.status(&mut modifiers)?,
                '{' => modifiers.argument = Some(self.argument(begin)?),
                letter => return self.item(begin, letter, modifiers),
            }
        }
    }

    /// Parses a status after its first digit.
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
            Ok(100..=599) => Err(self.mistake(begin, "too many statuses")),
            _ => Err(self.mistake(
                begin,
                "a status has three digits, from 100 to 599, as in %400,501{User-Agent}i",
            )),
        }
    }

    /// Parses an argument after its opening brace.
    fn argument(&mut self, begin: usize) -> Result<String, FormatMistake> {
        let Some(length) = self.text[self.at..].find('}') else {
            return Err(self.mistake(begin, "a { without its }"));
        };
        let argument = self.text[self.at..self.at + length].to_owned();
        self.at += length + 1;
        Ok(argument)
    }

    /// The item of a directive, which begins at this byte.
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
            ('V', None) => Item::Host(number(&mut self.parsed.request_fields, HOST)),
            ('p', None | Some("canonical" | "local")) => Item::ServerPort,
            ('p', Some("remote")) => Item::ClientPort,
            ('P', None | Some("pid")) => Item::ProcessId,
            ('i', Some(name)) => {
                let name = self.field(begin, name)?;
                Item::RequestField(number(&mut self.parsed.request_fields, name))
            }
            ('o', Some(name)) => {
                let name = self.field(begin, name)?;
                Item::ResponseField(number(&mut self.parsed.response_fields, name))
            }
            ('L', None) | ('e', Some("UNIQUE_ID")) => Item::Id,
            ('f', None) => {
                self.parsed.names_file = true;
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
        let filter = StatusFilter {
            statuses: modifiers.statuses,
            is_negated: modifiers.is_negated,
        };
        Ok(Item::When(Box::new(filter), Box::new(item)))
    }

    fn time(&self, begin: usize, argument: &str) -> Result<Item, FormatMistake> {
        let (point, format) = match argument.strip_prefix("end:") {
            Some(format) => (TimePoint::End, format),
            None => (TimePoint::Begin, argument.strip_prefix("begin:").unwrap_or(argument)),
        };
        let format = match format {
            "" => TimeFormat::Text(CLF_TIME.into()),
            "sec" => TimeFormat::Since(TimeUnit::Seconds),
            "msec" => TimeFormat::Since(TimeUnit::Millis),
            "usec" => TimeFormat::Since(TimeUnit::Micros),
            "msec_frac" => TimeFormat::Fraction(TimeUnit::Millis),
            "usec_frac" => TimeFormat::Fraction(TimeUnit::Micros),
            text => {
                check_strftime(text).map_err(|message| self.mistake(begin, &message))?;
                TimeFormat::Text(text.into())
            }
        };
        Ok(Item::Time(point, format))
    }

    fn field(&self, begin: usize, name: &str) -> Result<HeaderName, FormatMistake> {
        HeaderName::try_from(name)
            .map_err(|_| self.mistake(begin, &format!("\"{}\" is not a field name", name.escape_debug())))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// A mistake at this byte of the text.
    fn mistake(&self, at: usize, text: &str) -> FormatMistake {
        FormatMistake {
            at: 1 + self.text[..at].chars().count(),
            text: text.to_owned(),
        }
    }
}

/// The number of a field in a list; the field is added if it is missing.
fn number(fields: &mut Vec<HeaderName>, name: HeaderName) -> usize {
    fields.iter().position(|known| *known == name).unwrap_or_else(|| {
        fields.push(name);
        fields.len() - 1
    })
}

/// Refuses formats that jiff does not know, and those with fractions of a second, because the log caches the text of a second.
fn check_strftime(format: &str) -> Result<(), String> {
    let write = |nanosecond| {
        let time = Timestamp::new(1_000_000_000, nanosecond).unwrap_or_default();
        strtime::format(format, &time.to_zoned(TimeZone::UTC))
    };
    match (write(0), write(123_456_789)) {
        (Ok(whole), Ok(part)) if whole == part => Ok(()),
        (Ok(_), Ok(_)) => {
            Err("fractions of a second are written %{msec_frac}t or %{usec_frac}t, after the rest".to_owned())
        }
        (Err(error), _) | (_, Err(error)) => Err(format!("\"{}\": {error}", format.escape_debug())),
    }
}

/// The message for a directive that does not exist, or not with this argument.
fn unknown(letter: char, argument: Option<&str>) -> String {
    let shown = match argument {
        Some(argument) => format!("%{{{}}}{}", argument.escape_debug(), letter.escape_debug()),
        None => format!("%{}", letter.escape_debug()),
    };
    let fix = match letter {
        'i' | 'o' => "it needs the name of a field, as in %{User-Agent}i",
        'e' => "the only variable that can be logged is %{UNIQUE_ID}e",
        'I' | 'S' => "bytes of requests are not counted; %B counts those of the response's body",
        'T' => "the units are %{s}T, %{ms}T and %{us}T",
        'p' => "the ports are %p, %{local}p and %{remote}p",
        'a' => "the addresses are %a and %{c}a of the client, %A of the server",
        _ if argument.is_some() => "no such directive takes an argument",
        _ => {
            "the directives are %h %a %A %l %u %t %r %m %U %q %H %s %b %B %O %D %T %v %V %p %P %{Name}i %{Name}o %L %f %R %X %%"
        }
    };
    format!("{shown} is not a directive: {fix}")
}
