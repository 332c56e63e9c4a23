//! The secrets in bodies: forms, parts of forms, JSON, XML, and pairs in any text. Each masked byte becomes `*`, so that lengths stay true.
//!
//! A mask is applied to the chunks of one body in their order, wherever they end. What a body is follows from its type, and where that says little, from its
//! first bytes: `curl -d` sends anything as a form.

use crate::mask::json::JsonMask;
use crate::mask::masks::{Masks, NAME_BYTES_MAX, extend, mask_as_in};
use crate::mask::pairs::PairMask;
use crate::mask::parts::PartsMask;
use crate::mask::xml::XmlMask;

/// Types of which the body is text or data of a program, whatever it is.
const UNCERTAIN: [&str; 4] = [
    "",
    "application/x-www-form-urlencoded",
    "text/plain",
    "application/octet-stream",
];

/// The byte order mark of UTF-8, which may precede a text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The mask of one body.
#[derive(Clone, Debug)]
pub struct BodyMask(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// The body has no secrets: it is an image, for example.
    Shown,
    /// The whole body is masked, because it cannot be read.
    Hidden,
    /// The first bytes will show the kind.
    Unknown(Masks),
    /// Each masks what it knows. They see the bytes as they are, not as another one has left them.
    Layers(Vec<Layer>),
}

#[derive(Clone, Debug)]
enum Layer {
    Form(FormMask),
    /// The pairs in a value, such as the query of a URL, are masked too.
    Pairs(PairMask),
    Parts(Box<PartsMask>),
    Json(JsonMask),
    Xml(XmlMask),
}

impl Masks {
    /// The mask of a body. `content_type` is the value of that field; a body that is compressed is not decoded.
    #[must_use]
    pub fn body(&self, content_type: Option<&str>, is_compressed: bool) -> BodyMask {
        BodyMask::new(self, content_type, is_compressed)
    }

    fn json(&self) -> Kind {
        Kind::Layers(vec![
            Layer::Json(JsonMask::new(self)),
            Layer::Pairs(PairMask::new(self)),
        ])
    }

    fn xml(&self) -> Kind {
        Kind::Layers(vec![Layer::Xml(XmlMask::new(self)), Layer::Pairs(PairMask::new(self))])
    }

    fn parts(&self) -> Layer {
        Layer::Parts(Box::new(PartsMask::new(self)))
    }
}

impl BodyMask {
    fn new(masks: &Masks, content_type: Option<&str>, is_compressed: bool) -> BodyMask {
        if !masks.is_on() {
            return BodyMask(Kind::Shown);
        }
        let value = content_type.unwrap_or_default().to_ascii_lowercase();
        let kind = value.split(';').next().unwrap_or_default().trim();
        let is_uncertain = UNCERTAIN.contains(&kind);
        let is_json = kind.contains("json") || kind.contains("graphql");
        let is_xml = kind.ends_with("xml");
        let is_parts = kind.starts_with("multipart/");
        let is_text = kind.starts_with("text/");
        BodyMask(match is_compressed {
            _ if !(is_uncertain || is_json || is_xml || is_parts || is_text) => Kind::Shown,
            true if is_text && kind != "text/plain" => Kind::Shown,
            true => Kind::Hidden,
            false if is_json => masks.json(),
            false if is_xml => masks.xml(),
            false if is_parts && value.contains("boundary") => Kind::Layers(vec![masks.parts()]),
            false if is_parts => Kind::Hidden,
            false if is_uncertain => Kind::Unknown(masks.clone()),
            false => Kind::Layers(vec![Layer::Pairs(PairMask::new(masks))]),
        })
    }

    /// Masks the next bytes.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        let is_first = |byte: &&u8| !byte.is_ascii_whitespace() && !BYTE_ORDER_MARK.contains(byte);
        if let Kind::Unknown(masks) = &self.0
            && let Some(first) = bytes.iter().find(is_first)
        {
            self.0 = match first {
                b'{' | b'[' => masks.json(),
                b'<' => masks.xml(),
                _ => Kind::Layers(vec![
                    Layer::Form(FormMask::new(masks)),
                    Layer::Pairs(PairMask::new(masks)),
                    masks.parts(),
                ]),
            };
        }
        match &mut self.0 {
            Kind::Shown | Kind::Unknown(_) => {}
            Kind::Hidden => bytes.fill(b'*'),
            Kind::Layers(layers) => {
                let plain = bytes.to_vec();
                let mut copy = plain.clone();
                for layer in layers {
                    copy.copy_from_slice(&plain);
                    layer.apply(&mut copy);
                    mask_as_in(bytes, &copy);
                }
            }
        }
    }
}

impl Layer {
    fn apply(&mut self, bytes: &mut [u8]) {
        match self {
            Layer::Form(mask) => mask.apply(bytes),
            Layer::Pairs(mask) => mask.apply(bytes),
            Layer::Parts(mask) => mask.apply(bytes),
            Layer::Json(mask) => mask.apply(bytes),
            Layer::Xml(mask) => mask.apply(bytes),
        }
    }
}

/// The mask of `name=value&name=value`, also one pair in each line (`text/plain`, which HTML forms can send too).
#[derive(Clone, Debug)]
struct FormMask {
    masks: Masks,
    state: State,
    name: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Name,
    Shown,
    Masked,
}

impl FormMask {
    fn new(masks: &Masks) -> FormMask {
        FormMask {
            masks: masks.clone(),
            state: State::Name,
            name: Vec::new(),
        }
    }

    fn apply(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Name {
                at += self.add_to_name(&bytes[at..]);
            }
            if self.state == State::Shown {
                let is_end = |byte: &u8| matches!(*byte, b'&' | b'\r' | b'\n' | b';');
                let end = bytes[at..].iter().position(is_end);
                at = end.map_or(bytes.len(), |end| at + end);
            }
            let Some(byte) = bytes.get_mut(at) else { break };
            at += 1;
            // Some programs separate by `;`. Within a secret it is part of it.
            let ends_pair = matches!(*byte, b'&' | b'\r' | b'\n') || (*byte == b';' && self.state != State::Masked);
            match self.state {
                _ if ends_pair => {
                    self.name.clear();
                    self.state = State::Name;
                }
                State::Name if *byte == b'=' => {
                    self.state = match self.masks.is_secret_parameter(&self.name) {
                        true => State::Masked,
                        false => State::Shown,
                    };
                }
                State::Name | State::Shown => {}
                State::Masked => *byte = b'*',
            }
        }
    }

    /// Adds what stands before the end of a name, and returns its length.
    fn add_to_name(&mut self, bytes: &[u8]) -> usize {
        let is_end = |byte: &u8| matches!(*byte, b'=' | b'&' | b'\r' | b'\n' | b';');
        let length = bytes.iter().position(is_end).unwrap_or(bytes.len());
        extend(&mut self.name, &bytes[..length], NAME_BYTES_MAX);
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content_type: &str, body: &str, expected: &str) {
        for size in 1..=body.len() {
            let mut bytes = body.as_bytes().to_vec();
            let mut mask = Masks::default().body(Some(content_type), false);
            bytes.chunks_mut(size).for_each(|chunk| mask.apply(chunk));
            let shown = String::from_utf8(bytes).unwrap();
            let is_delimiter = |line: &&str| line.chars().any(|letter| letter != '*');
            if content_type.starts_with("multipart/") {
                // A delimiter that begins in an earlier chunk stays masked.
                let lines = |text: &str| text.lines().filter(is_delimiter).map(str::to_owned).collect::<Vec<_>>();
                let (shown, expected) = (lines(&shown), lines(expected));
                assert!(
                    shown.iter().all(|line| !line.contains("s3cret")),
                    "chunks of {size}: {shown:?}"
                );
                assert_eq!(shown.last(), expected.last(), "chunks of {size}");
            } else {
                assert_eq!(shown, expected, "chunks of {size}");
            }
        }
    }

    #[test]
    fn the_secrets_of_a_form_are_masked_wherever_the_chunks_end() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        check(form, "user=ann&password=s3c;ret&x=1", "user=ann&password=*******&x=1");
        check(form, "pass%77ord=a&&=&token", "pass%77ord=*&&=&token");
        check(
            "text/plain",
            "a=b\r\npassword=s3 cret\r\nc=d",
            "a=b\r\npassword=*******\r\nc=d",
        );
        check("", "a=b;pwd=1;2&c=3", "a=b;pwd=***&c=3");
        check(
            "text/plain",
            "REFERER=http://a.test/?token=abc\nA=b",
            "REFERER=http://a.test/?token=***\nA=b",
        );
    }

    #[test]
    fn json_is_masked_by_its_names_whatever_its_type_says() {
        for kind in [
            "application/json",
            "application/problem+json",
            "application/x-www-form-urlencoded",
            "",
        ] {
            check(
                kind,
                r#"{"user":"ann","password":"s3\"cret","x":[1,{"token":12.5,"y":true}],"secret":{"a":"b","c":[1]},"z":"password"}"#,
                r#"{"user":"ann","password":"********","x":[1,{"token":****,"y":true}],"secret":{"*":"*","*":[*]},"z":"password"}"#,
            );
        }
        check(
            "application/json",
            r#"[{"pwd": null , "a":1}]"#,
            r#"[{"pwd": **** , "a":1}]"#,
        );
    }

    #[test]
    fn the_secret_parts_of_a_form_are_masked() {
        let body = "--b\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nann\r\n\
                    --b\r\ncontent-disposition: form-data; name=\"password\"\r\n\r\ns3cret\r\n--c\r\n -b\r\ns3cret\r\n\
                    --b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nshown\r\n--b--\r\nend";
        check("multipart/form-data; boundary=\"b\"", body, body);
        let mut whole = body.as_bytes().to_vec();
        Masks::default()
            .body(Some("multipart/form-data; charset=x; Boundary=b"), false)
            .apply(&mut whole);
        let shown = String::from_utf8(whole).unwrap();
        assert!(shown.contains("\r\n\r\n******\r\n***\r\n"), "{shown}");
        assert!(
            shown.contains("--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nshown\r\n--b--\r\nend"),
            "{shown}"
        );
    }

    #[test]
    fn a_body_of_unknown_type_is_masked_by_its_first_bytes() {
        let masked = |body: &str| {
            let mut bytes = body.as_bytes().to_vec();
            Masks::default().body(None, false).apply(&mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(masked("a=b&pwd=secret"), "a=b&pwd=******");
        assert_eq!(masked("{\"pwd\":\"secret\"}"), "{\"pwd\":\"******\"}");
        let parts = "--x\r\nContent-Disposition: form-data; name=\"pwd\"\r\n\r\nsecret\r\n--x--\r\n";
        assert_eq!(masked(parts), parts.replace("secret", "******"));
        // Whatever stands before the first part.
        for before in ["\r\n", "This is a form.\r\n", "-\r\n"] {
            let parts = format!("{before}{parts}");
            assert_eq!(masked(&parts), parts.replace("secret", "******"));
        }
        assert_eq!(masked("\u{feff}{\"pwd\":\"secret\"}"), "\u{feff}{\"pwd\":\"******\"}");
        assert_eq!(masked("(\u{b5}"), "(\u{b5}");
    }

    #[test]
    fn a_first_chunk_that_tells_nothing_hides_no_kind() {
        let parts = "--x\r\nContent-Disposition: form-data; name=\"pwd\"\r\n\r\nsecret\r\n--x--\r\n";
        let mut bytes = parts.as_bytes().to_vec();
        let mut mask = Masks::default().body(None, false);
        bytes.chunks_mut(1).for_each(|chunk| mask.apply(chunk));
        assert!(!String::from_utf8(bytes).unwrap().contains("secret"));
        // The boundary that the type names does not matter: clients and servers read quotation marks differently.
        let mut bytes = parts.as_bytes().to_vec();
        let kind = "multipart/form-data; x=\"; boundary=zzz\"; boundary=x";
        Masks::default().body(Some(kind), false).apply(&mut bytes);
        assert_eq!(String::from_utf8(bytes).unwrap(), parts.replace("secret", "******"));
    }

    #[test]
    fn the_secrets_of_xml_and_of_other_texts_are_masked() {
        for kind in [
            "text/xml",
            "application/soap+xml; charset=utf-8",
            "application/octet-stream",
            "",
        ] {
            check(
                kind,
                "<a><u:Password t=\"x\">s3<![CDATA[cr]]>et</u:Password><b>shown</b><Token/><c>x</c></a>",
                "<a><u:Password t=\"x\">*******************************<b>shown</b><Token/><c>x</c></a>",
            );
            check(
                kind,
                "<member><name>pwd</name><value><string>s3cret</string></value></member><b>y</b>",
                "<member><name>pwd</name><value>*******************************</member><b>y</b>",
            );
        }
        check(
            "text/html",
            "<a href=\"/reset?token=s3c\">x</a> api_key=\"s3 c\" <input name=\"csrf_token\" value='s3c'> name=\"a\" value=\"b\"",
            "<a href=\"/reset?token=***\">x</a> api_key=\"****\" <input name=\"csrf_token\" value='***'> name=\"a\" value=\"b\"",
        );
        check(
            "application/json",
            r#"{"next":"/reset?token=s3c","query":"mutation { login(user: \"ann\", password: \"s3c ret\") }"}"#,
            r#"{"next":"/reset?token=***","query":"mutation { login(user: \"ann\", password: \"********") }"}"#,
        );
        check("application/octet-stream", r#"{"pwd":"s3c"}"#, r#"{"pwd":"***"}"#);
    }

    #[test]
    fn what_cannot_be_read_is_hidden_and_what_is_no_form_is_shown() {
        let masked = |content_type: Option<&str>, is_compressed| {
            let mut bytes = *b"password=a";
            Masks::default().body(content_type, is_compressed).apply(&mut bytes);
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        assert_eq!(masked(Some("application/json"), true), "**********");
        assert_eq!(masked(Some("multipart/form-data"), false), "**********");
        assert_eq!(masked(Some("image/png"), true), "password=a");
        assert_eq!(masked(None, false), "password=*");
        let mut bytes = *b"password=a";
        Masks::off().body(None, true).apply(&mut bytes);
        assert_eq!(&bytes, b"password=a");
    }
}
