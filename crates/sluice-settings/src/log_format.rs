//! The format of a line of the access log: text in the notation of Apache's mod_log_config, parsed once into a list of items.

mod parser;

use std::fmt;

use http::HeaderName;
use http::header::{HOST, REFERER, USER_AGENT};

use crate::log_format::parser::Parser;

/// The named formats other than JSON, in the notation. Bytes are `%B`, so that they are a number in every line.
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

const JSON: &str = "json";

/// The format of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// The administrator's text: a name or a format string.
    text: String,
    /// The content of a line.
    pub line: LineFormat,
    /// The request fields that a line needs, in the order of the numbers in items.
    pub request_fields: Vec<HeaderName>,
    /// The response fields that a line needs, in the order of the numbers in items.
    pub response_fields: Vec<HeaderName>,
    /// Whether a line needs the name of the file.
    pub names_file: bool,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// One JSON object. Its request fields are Host, Referer and User-Agent.
    Json,
    /// Items without separators.
    Items(Vec<Item>),
}

/// A part of a line. The letters are the directives of mod_log_config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Text between directives, without newlines, and without control characters other than tabs.
    Literal(Box<str>),
    /// `%l`, which is never known.
    Unknown,
    /// `%a`: the client's address, which a trusted proxy may have named.
    Client,
    /// `%{c}a`: the peer of the connection, which may be a proxy.
    Peer,
    /// `%h`: the client's name, or its address without a name.
    ClientName,
    /// `%A`: the server's address.
    Server,
    /// `%u`: the user who has proved who they are (`access` of a route).
    User,
    /// `%t`: the time.
    Time(TimePoint, TimeFormat),
    /// `%r`: method, target and version.
    RequestLine,
    /// `%m`: the method.
    Method,
    /// `%U`: the path.
    Path,
    /// `%q`: the query, after a `?`.
    Query,
    /// `%H`: the version of HTTP.
    Protocol,
    /// `%s`: the status.
    Status,
    /// `%B`: bytes of the response's body.
    BodyBytes,
    /// `%b`: bytes of the response's body; `-` for zero.
    BodyBytesOrDash,
    /// `%T` or `%D`: the duration of the exchange.
    Duration(TimeUnit),
    /// `%v`: the configured name of the site.
    Site,
    /// `%V`: the host of the request without its port, from the target or the request field of this number.
    Host(usize),
    /// `%p`: the server's port.
    ServerPort,
    /// `%{remote}p`: the client's port.
    ClientPort,
    /// `%P`: the server's process id.
    ProcessId,
    /// `%{Name}i`: the request field of this number.
    RequestField(usize),
    /// `%{Name}o`: the response field of this number.
    ResponseField(usize),
    /// `%L`: the id of the exchange.
    Id,
    /// `%f`: the file.
    File,
    /// `%R`: the handler.
    Handler,
    /// `%X`: the state of the connection after the response.
    ConnectionState,
    /// An item for some statuses only; `-` for others.
    When(Box<StatusFilter>, Box<Item>),
}

/// The statuses for which an item is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFilter {
    statuses: Vec<u16>,
    is_negated: bool,
}

impl StatusFilter {
    /// Whether the item is written for this status.
    pub fn holds(&self, status: u16) -> bool {
        self.statuses.contains(&status) != self.is_negated
    }
}

/// The point in time of an exchange that a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    /// The start of the request.
    Begin,
    /// The end of the response.
    End,
}

/// How a time is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// In this format of strftime(3), in the server's time zone.
    Text(Box<str>),
    /// A number, counted from the start of 1970.
    Since(TimeUnit),
    /// The fraction of the second, with leading zeros.
    Fraction(TimeUnit),
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
}

/// A mistake in a format string, which is the administrator's to fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatMistake {
    /// The position, in characters from 1.
    pub at: usize,
    /// The problem, and the text to write instead.
    pub text: String,
}

impl fmt::Display for FormatMistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at character {}: {}", self.at, self.text)
    }
}

impl std::error::Error for FormatMistake {}

/// The text as the administrator wrote it.
impl fmt::Display for LogFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Default for LogFormat {
    /// Apache's combined format, with the UNIQUE_ID at its end.
    fn default() -> LogFormat {
        LogFormat::parse("combined").expect("the named formats are valid")
    }
}

impl LogFormat {
    /// Parses the name of a format (`common`, `combined`, `vhost-combined`, `json`) or a format string.
    ///
    /// # Errors
    /// The first mistake in a format string, which is the administrator's to fix.
    pub fn parse(text: &str) -> Result<LogFormat, FormatMistake> {
        if text == JSON {
            return Ok(LogFormat {
                text: text.to_owned(),
                line: LineFormat::Json,
                request_fields: vec![HOST, REFERER, USER_AGENT],
                response_fields: Vec::new(),
                names_file: false,
            });
        }
        let named = NAMED.iter().find(|(name, _)| *name == text);
        let parsed = Parser::parse(named.map_or(text, |(_, notation)| notation))?;
        if !parsed.items.iter().any(|item| !matches!(item, Item::Literal(_))) {
            return Err(FormatMistake {
                at: 1,
                text: r#"must be "common", "combined", "vhost-combined", "json", or a format string such as '%h %t "%r" %>s %B'"#
                    .to_owned(),
            });
        }
        Ok(LogFormat {
            text: text.to_owned(),
            line: LineFormat::Items(parsed.items),
            request_fields: parsed.request_fields,
            response_fields: parsed.response_fields,
            names_file: parsed.names_file,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parser::CLF_TIME;
    use super::*;

    fn items(text: &str) -> Vec<Item> {
        match LogFormat::parse(text)
            .unwrap_or_else(|mistake| panic!("{text}: {mistake}"))
            .line
        {
            LineFormat::Items(items) => items,
            LineFormat::Json => panic!("{text} is JSON"),
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
            "a format without fields needs none"
        );
    }

    #[test]
    fn statuses_before_a_directive_are_a_filter() {
        let [Item::When(filter, item)] = &items("%400,501{User-Agent}i")[..] else {
            panic!("no filter")
        };
        assert_eq!(**item, Item::RequestField(0));
        assert!(filter.holds(400) && filter.holds(501) && !filter.holds(200));
        let [Item::When(filter, _)] = &items("%!200,304,302>s")[..] else {
            panic!("no filter")
        };
        assert!(!filter.holds(200) && filter.holds(404));
    }

    #[test]
    fn times_are_text_numbers_or_fractions_of_a_second() {
        let time = |point, format| vec![Item::Time(point, format)];
        assert_eq!(items("%t"), time(TimePoint::Begin, TimeFormat::Text(CLF_TIME.into())));
        assert_eq!(
            items("%{end:}t"),
            time(TimePoint::End, TimeFormat::Text(CLF_TIME.into()))
        );
        assert_eq!(
            items("%{begin:msec}t"),
            time(TimePoint::Begin, TimeFormat::Since(TimeUnit::Millis))
        );
        assert_eq!(
            items("%{end:usec_frac}t"),
            time(TimePoint::End, TimeFormat::Fraction(TimeUnit::Micros))
        );
        assert_eq!(
            items("%{%F %T}t"),
            time(TimePoint::Begin, TimeFormat::Text("%F %T".into()))
        );
        assert_mistake("%h %{%F.%f}t", 4, "%{msec_frac}t");
        assert_mistake("%{%!}t", 1, "%!");
    }

    #[test]
    fn mistakes_are_reported_with_their_position() {
        assert_mistake("%h %y", 4, "%y is not a directive: the directives are");
        assert_mistake("é%é", 2, "%é is not a directive");
        assert_mistake("%h %", 4, "%%");
        assert_mistake("%h %{Referer", 4, "without its }");
        assert_mistake("%h %{a b}i", 4, "\"a b\" is not a field name");
        assert_mistake("%i", 1, "needs the name of a field");
        assert_mistake("%{PATH}e", 1, "UNIQUE_ID");
        assert_mistake("%h %40s", 5, "three digits");
        assert_mistake("%999s", 2, "three digits");
        assert_mistake("%!s", 1, "%!200,304");
        assert_mistake("%{h}T", 1, "%{ms}T");
        assert_mistake("%{x}r", 1, "takes an argument");
        assert_mistake("%{x}\u{1}", 1, "%{x}\\u{1} is ");
        assert_mistake("%I", 1, "not counted");
        assert_mistake("%h\n%r", 3, "one line");
        assert_mistake(r"%h\n%r", 3, "one line");
        assert_mistake("%h\u{1b}", 3, "control character");
        assert_mistake("comboned", 1, "vhost-combined");
        assert_mistake("", 1, "vhost-combined");
    }

    #[test]
    fn named_formats_keep_their_names() {
        for name in ["common", "combined", "vhost-combined", "json", "%h %r"] {
            assert_eq!(LogFormat::parse(name).unwrap().to_string(), name);
        }
    }

    proptest! {
        /// Every text is parsed, or refused at a position within it, and no literal breaks a line.
        #[test]
        fn no_text_panics_or_breaks_a_line(text in "([%{}!<>,0-9a-zA-Z:\\\\\"\\n\\t é]|%\\{[a-zA-Z%_: ]{0,8}\\}[a-zA-Z]){0,20}") {
            match LogFormat::parse(&text) {
                Ok(LogFormat { line: LineFormat::Items(items), .. }) => {
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
