//! Responses as a client sees them: head, body, and whether the body is complete.

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The full Content-Length, the last chunk, or an orderly end of the connection.
    Complete,
    /// The connection ended earlier, or was reset.
    Truncated,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Head {
    /// `HTTP/1.1`.
    pub version: String,
    /// The status code.
    pub status: u16,
    /// Names in lower case, in the order of arrival.
    pub fields: Vec<(String, String)>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The head.
    pub head: Head,
    /// Without the chunk framing.
    pub body: Vec<u8>,
    /// How the body ended.
    pub ending: Ending,
}

impl Head {
    /// Parses the text of a head, without the empty line at its end. Fails the test if it is malformed.
    #[track_caller]
    pub fn parse(text: &str) -> Head {
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let mut words = first.splitn(3, ' ');
        let (version, status) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        assert!(version.starts_with("HTTP/1."), "not the head of a response: {text:?}");
        let fields = lines.map(|line| {
            let Some((name, value)) = line.split_once(':') else {
                panic!("a line without a colon: {line:?} in {text:?}")
            };
            assert!(!name.contains([' ', '\t']), "white space in a field's name: {line:?}");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Head {
            version: version.to_owned(),
            status: status.parse().unwrap_or_else(|_| panic!("no status in {first:?}")),
            fields: fields.collect(),
        }
    }

    /// The value of a field. Fails the test if the field occurs twice.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.values(name);
        assert!(values.len() < 2, "field {name} occurs twice: {values:?}");
        values.first().copied()
    }

    /// All values of a field.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let own = self.fields.iter().filter(|field| field.0 == name.to_ascii_lowercase());
        own.map(|field| field.1.as_str()).collect()
    }

    /// How the body that follows is delimited (RFC 9112 §6.3).
    #[track_caller]
    pub fn framing(&self, method: &str) -> Framing {
        let has_no_body = method == "HEAD" || self.status < 200 || self.status == 204 || self.status == 304;
        let length = self.field("content-length");
        match self.field("transfer-encoding") {
            _ if has_no_body => Framing::Length(0),
            Some(coding) => {
                assert_eq!(coding, "chunked");
                assert_eq!(length, None, "both Content-Length and Transfer-Encoding");
                Framing::Chunked
            }
            None => match length {
                Some(length) => Framing::Length(length.parse().expect("Content-Length is a number")),
                None => Framing::Close,
            },
        }
    }
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Framing {
    Length(usize),
    Chunked,
    Close,
}

impl Response {
    /// Puts the parts of a response together.
    pub fn new(head: Head, body: Vec<u8>, ending: Ending) -> Response {
        Response { status: head.status, head, body, ending }
    }

    /// Parses everything that came on a connection that is closed after one response to a GET. `None` if it is not whole.
    #[track_caller]
    pub fn of_closed(text: &str) -> Option<Response> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let head = Head::parse(head);
        let body = match head.framing("GET") {
            Framing::Length(length) => body.as_bytes().get(..length)?.to_vec(),
            Framing::Chunked => without_chunk_framing(body)?,
            Framing::Close => body.as_bytes().to_vec(),
        };
        Some(Response::new(head, body, Ending::Complete))
    }

    /// The value of a field. Fails the test if the field occurs twice.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// The body, which must be complete and UTF-8.
    #[track_caller]
    pub fn text(&self) -> &str {
        let text = std::str::from_utf8(&self.body).expect("the body is UTF-8");
        assert_eq!(self.ending, Ending::Complete, "the body was truncated after {text:?}");
        text
    }

    /// The value of a name in a body with lines `NAME=value`.
    #[track_caller]
    pub fn variable(&self, name: &str) -> Option<&str> {
        let mut lines = self.text().lines().filter_map(|line| line.split_once('='));
        lines.find(|line| line.0 == name).map(|line| line.1)
    }
}

/// The content of a chunked body. `None` if it is not whole.
fn without_chunk_framing(mut framed: &str) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let (size, rest) = framed.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend(rest.get(..size)?.bytes());
        framed = rest.get(size..)?.strip_prefix("\r\n")?;
    }
}
