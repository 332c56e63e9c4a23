//! A script's reply: which of the four kinds of RFC 3875 §6.2 it is, decided from the fields of its head.
//!
//! `script_head` parses the fields; this file interprets them and removes those that must not reach the client. A reply has few of these,
//! so one pass finds out which (`special_fields`), and only they are looked up.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use crate::head_fault::{Excerpt, HeadFault};
use crate::script_control::ScriptControl;
use crate::special_fields::{HOP_BY_HOP, SCRIPT_CONTROL, STATUS, SpecialFields};

/// A script's reply (RFC 3875 §6.2).
#[derive(Clone, Debug)]
pub enum Reply {
    /// A document, with or without a body (§6.2.1).
    Document(ReplyHead),
    /// A local redirect: the server answers with this path and query of the same site as if the client had requested it
    /// (§6.2.2), and discards the rest of the script's output. Begins with `/`, contains only characters of a URI.
    LocalRedirect(String),
    /// A redirect for the client: 302 unless the script named another status (§6.2.3, §6.2.4). A body may follow.
    ClientRedirect(ReplyHead),
    /// A reply with a status line of its own (§5, NPH); the server still frames the body.
    NonParsed(ReplyHead),
}

/// The head of a reply that goes to the client.
#[derive(Clone, Debug)]
pub struct ReplyHead {
    /// The status, without the reason phrase: HTTP/2 has none.
    pub status: StatusCode,
    /// The fields for the client: without `Status`, `Script-Control`, `Content-Length` and the hop-by-hop ones.
    pub fields: HeaderMap,
    /// Bytes in the body, from the script's Content-Length.
    pub content_length: Option<u64>,
    /// Whether the script has framed the body itself, by the chunked coding; then there is no `content_length`.
    pub is_chunked: bool,
    /// The directives of the script's `Script-Control` field.
    pub control: ScriptControl,
    /// Whether one of the fields names a file to send instead of a body ([`SEND_FILE_FIELDS`](crate::SEND_FILE_FIELDS)).
    pub names_file: bool,
}

/// Classifies a reply without a status line of its own.
pub(crate) fn parsed(fields: HeaderMap) -> Result<Reply, HeadFault> {
    let special = SpecialFields::of(&fields);
    classify(fields, special)
}

fn classify(mut fields: HeaderMap, special: SpecialFields) -> Result<Reply, HeadFault> {
    let status = take_single(&mut fields, special.status, &STATUS, "Status")?
        .map(|text| status_code(text.as_bytes()).ok_or_else(|| bad_status(text.as_bytes())))
        .transpose()?;
    let mut head = head_of(StatusCode::OK, fields, special)?;
    let status = status.or(head.control.http_status);
    if let Some(status) = status {
        head.status = status;
    }
    if special.hop_by_hop {
        drop_hop_by_hop(&mut head);
    }
    let Some(location) = special.location.then(|| head.fields.get(LOCATION)).flatten() else {
        return Ok(Reply::Document(head));
    };
    if location.is_empty() {
        return Err(HeadFault::EmptyLocation);
    }
    // A reply with a status is for the client, whatever Location names (§6.2.4, as in Apache): 201 with it is a document, 303 with a path a redirect.
    if let Some(status) = status {
        let is_redirect = status.is_redirection();
        return Ok(if is_redirect {
            Reply::ClientRedirect(head)
        } else {
            Reply::Document(head)
        });
    }
    if let Some(path) = local_path(location)
        && has_only_redirect_fields(&head.fields)
    {
        return Ok(Reply::LocalRedirect(path));
    }
    head.status = StatusCode::FOUND;
    Ok(Reply::ClientRedirect(head))
}

/// Classifies a reply that began with the status line `HTTP/… <status>`.
pub(crate) fn non_parsed(status: StatusCode, mut fields: HeaderMap) -> Result<Reply, HeadFault> {
    let special = SpecialFields::of(&fields);
    fields.remove(&STATUS);
    let mut head = head_of(status, fields, special)?;
    drop_hop_by_hop(&mut head);
    Ok(Reply::NonParsed(head))
}

/// The status in `404` or `404 Not Found`: 200 to 599, or 101. Other 1xx are interim responses, which only the server sends.
pub(crate) fn status_code(text: &[u8]) -> Option<StatusCode> {
    let (digits, rest) = text.split_at_checked(3)?;
    if !digits.iter().all(u8::is_ascii_digit) || rest.first().is_some_and(|byte| !matches!(byte, b' ' | b'\t')) {
        return None;
    }
    let status = StatusCode::from_bytes(digits).ok()?;
    (status == StatusCode::SWITCHING_PROTOCOLS || (200..600).contains(&status.as_u16())).then_some(status)
}

pub(crate) fn bad_status(text: &[u8]) -> HeadFault {
    HeadFault::BadStatus(Excerpt::of(text))
}

/// Moves the fields that address the server out of `fields`.
fn head_of(status: StatusCode, mut fields: HeaderMap, special: SpecialFields) -> Result<ReplyHead, HeadFault> {
    let control = match special.control {
        true => take_control(&mut fields),
        false => ScriptControl::default(),
    };
    let content_length = take_single(&mut fields, special.content_length, &CONTENT_LENGTH, "Content-Length")?;
    let content_length = content_length.map(|text| number(text.as_bytes())).transpose()?;
    let is_chunked = special.transfer_encoding && take_chunked(&mut fields)?;
    if special.repeated {
        keep_one(&mut fields, &CONTENT_TYPE, "Content-Type")?;
        keep_one(&mut fields, &LOCATION, "Location")?;
    }
    Ok(ReplyHead {
        status,
        fields,
        // RFC 9112 §6.3: the chunks count.
        content_length: content_length.filter(|_| !is_chunked),
        is_chunked,
        control,
        names_file: special.send_file,
    })
}

fn take_control(fields: &mut HeaderMap) -> ScriptControl {
    let mut control = ScriptControl::default();
    for value in fields.get_all(&SCRIPT_CONTROL) {
        control = control.overridden_by(ScriptControl::parse(&String::from_utf8_lossy(value.as_bytes())));
    }
    fields.remove(&SCRIPT_CONTROL);
    control
}

/// Removes the fields about the connection between client and server (RFC 9110 §7.6.1), of which the script is no part.
fn drop_hop_by_hop(head: &mut ReplyHead) {
    for name in &HOP_BY_HOP {
        // With 101 it names the protocol that the script switches to (RFC 9110 §7.8).
        if name == UPGRADE && head.status == StatusCode::SWITCHING_PROTOCOLS {
            continue;
        }
        head.fields.remove(name);
    }
}

/// Removes Transfer-Encoding, and says whether the body is chunked. `identity` stands for no coding (RFC 2616 §3.6).
fn take_chunked(fields: &mut HeaderMap) -> Result<bool, HeadFault> {
    let values = || fields.get_all(TRANSFER_ENCODING).iter().map(HeaderValue::as_bytes);
    let mut codings = values()
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    let is_chunked = match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => true,
        _ => {
            let text = Excerpt::of(&values().collect::<Vec<_>>().join(&b", "[..]));
            return Err(HeadFault::TransferEncoding(text));
        }
    };
    fields.remove(TRANSFER_ENCODING);
    Ok(is_chunked)
}

/// The value of a field that may occur once (RFC 3875 §6.3), removed, if it `is_there`. Equal repetitions are accepted. `written`: the name in messages.
fn take_single(
    fields: &mut HeaderMap,
    is_there: bool,
    name: &HeaderName,
    written: &'static str,
) -> Result<Option<HeaderValue>, HeadFault> {
    if !is_there {
        return Ok(None);
    }
    require_single(fields, name, written)?;
    Ok(fields.remove(name))
}

fn require_single(fields: &HeaderMap, name: &HeaderName, written: &'static str) -> Result<(), HeadFault> {
    let mut values = fields.get_all(name).iter();
    let first = values.next();
    if values.any(|value| Some(value) != first) {
        return Err(HeadFault::Conflict(written));
    }
    Ok(())
}

/// Keeps one of equal repetitions of a field.
fn keep_one(fields: &mut HeaderMap, name: &HeaderName, written: &'static str) -> Result<(), HeadFault> {
    require_single(fields, name, written)?;
    if let Some(value) = fields.get(name).cloned() {
        fields.insert(name, value);
    }
    Ok(())
}

fn number(text: &[u8]) -> Result<u64, HeadFault> {
    let digits = str::from_utf8(text)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| HeadFault::BadContentLength(Excerpt::of(text)))
}

/// The path and query of this site that `location` names (RFC 3875 §6.2.2 local-pathquery), percent-encoded.
///
/// `None` for `//host`, which a client resolves to another host, and with a fragment, which only a client can use.
fn local_path(location: &HeaderValue) -> Option<String> {
    /// ASCII characters not allowed in a URI (RFC 3986 §2). Bytes beyond ASCII are always encoded.
    const NOT_IN_URI: &AsciiSet = &CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'<')
        .add(b'>')
        .add(b'\\')
        .add(b'^')
        .add(b'`')
        .add(b'{')
        .add(b'|')
        .add(b'}');
    let text = location.as_bytes();
    let is_local = text.starts_with(b"/") && !text.starts_with(b"//") && !text.contains(&b'#');
    is_local.then(|| percent_encode(text, NOT_IN_URI).to_string())
}

/// Whether there is no field that a local redirect would lose.
///
/// RFC 3875 §6.2.2 forbids all other fields. Many programs add a Content-Type regardless, so it is accepted; but a
/// program that sets a cookie wants the client to get it, so that reply becomes a client redirect.
fn has_only_redirect_fields(fields: &HeaderMap) -> bool {
    fields.keys().all(|name| *name == LOCATION || *name == CONTENT_TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_control::BodyMode;
    use crate::script_head::tests::{document, fault, reply};
    use proptest::prelude::*;

    fn client_redirect(text: &str) -> ReplyHead {
        match reply(text) {
            Reply::ClientRedirect(head) => head,
            other => panic!("not a client redirect: {other:?}"),
        }
    }

    fn local_redirect(text: &str) -> String {
        match reply(text) {
            Reply::LocalRedirect(path) => path,
            other => panic!("not a local redirect: {other:?}"),
        }
    }

    #[test]
    fn a_status_may_have_a_reason_or_none() {
        assert_eq!(document("Content-Type: text/plain\n\n").status, StatusCode::OK);
        assert_eq!(document("Status: 404\n\n").status, StatusCode::NOT_FOUND);
        let head = document("Status: 404 Not Found\nContent-Type: text/plain\n\n");
        assert_eq!(head.status, StatusCode::NOT_FOUND);
        assert!(!head.fields.contains_key("status"));
        assert_eq!(
            document("Status: 101 Switching Protocols\n\n").status,
            StatusCode::SWITCHING_PROTOCOLS
        );
    }

    #[test]
    fn an_impossible_status_is_a_fault() {
        for status in ["", "ok", "20", "2000", "099", "600", "100", "103", "-20", "404Not"] {
            assert!(
                matches!(fault(&format!("Status: {status}\n\n")), HeadFault::BadStatus(_)),
                "{status}"
            );
        }
    }

    #[test]
    fn local_redirect_keeps_query() {
        assert_eq!(local_redirect("Location: /a/b?c=d&e\n\n"), "/a/b?c=d&e");
        assert_eq!(local_redirect("Location: /a\nContent-Type: text/html\n\n"), "/a");
    }

    #[test]
    fn local_redirect_is_percent_encoded() {
        assert_eq!(local_redirect("Location: /a b/%20/\u{e4}\n\n"), "/a%20b/%20/%C3%A4");
    }

    #[test]
    fn urls_fragments_and_relative_paths_are_client_redirects() {
        for location in ["https://example.org/", "//example.org/", "/a#part", "next.html"] {
            let head = client_redirect(&format!("Location: {location}\n\n"));
            assert_eq!(head.status, StatusCode::FOUND);
            assert_eq!(head.fields[LOCATION], location);
        }
    }

    #[test]
    fn a_path_with_a_status_or_a_cookie_is_a_client_redirect() {
        assert_eq!(
            client_redirect("Status: 303 See Other\nLocation: /a\n\n").status,
            StatusCode::SEE_OTHER
        );
        let head = client_redirect("Location: /a\nSet-Cookie: a=b\n\n");
        assert_eq!((head.status, head.fields.len()), (StatusCode::FOUND, 2));
    }

    #[test]
    fn created_with_location_is_a_document() {
        let head = document("Status: 201 Created\nLocation: /a\n\n");
        assert_eq!(
            (head.status, &head.fields[LOCATION]),
            (StatusCode::CREATED, &HeaderValue::from_static("/a"))
        );
    }

    #[test]
    fn an_empty_location_is_a_fault() {
        assert_eq!(fault("Location:\n\n"), HeadFault::EmptyLocation);
    }

    #[test]
    fn content_length_is_one_number() {
        let head = document("Content-Length: 12\ncontent-length: 12\n\n");
        assert_eq!(head.content_length, Some(12));
        assert!(head.fields.is_empty());
        assert_eq!(
            fault("Content-Length: 1\nContent-Length: 2\n\n"),
            HeadFault::Conflict("Content-Length")
        );
        for length in ["", "+1", "-1", "1, 1", "0x1", "99999999999999999999"] {
            let fault = fault(&format!("Content-Length: {length}\n\n"));
            assert!(matches!(fault, HeadFault::BadContentLength(_)), "{length}");
        }
    }

    #[test]
    fn conflicting_fields_are_faults_and_repetitions_are_not() {
        assert_eq!(fault("Status: 200\nStatus: 404\n\n"), HeadFault::Conflict("Status"));
        assert_eq!(
            fault("Content-Type: a/b\nContent-Type: c/d\n\n"),
            HeadFault::Conflict("Content-Type")
        );
        assert_eq!(document("Content-Type: a/b\nContent-Type: a/b\n\n").fields.len(), 1);
        assert_eq!(document("Set-Cookie: a\nSet-Cookie: b\n\n").fields.len(), 2);
    }

    #[test]
    fn hop_by_hop_fields_are_dropped() {
        let head = document("Connection: close\nKeep-Alive: 5\nUpgrade: x\nX-A: 1\n\n");
        assert_eq!(head.fields.keys().collect::<Vec<_>>(), ["x-a"]);
    }

    #[test]
    fn the_only_transfer_coding_is_chunked() {
        let head = document("Transfer-Encoding: Chunked\nContent-Length: 5\nX-A: 1\n\n");
        assert!(head.is_chunked && head.content_length.is_none() && head.fields.len() == 1);
        assert!(!document("Transfer-Encoding: identity\n\n").is_chunked);
        for codings in [
            "gzip",
            "gzip, chunked",
            "chunked, chunked",
            "chunked\nTransfer-Encoding: chunked",
        ] {
            let fault = fault(&format!("Transfer-Encoding: {codings}\n\n"));
            assert!(matches!(fault, HeadFault::TransferEncoding(_)), "{codings}");
        }
    }

    #[test]
    fn a_head_that_names_a_file_says_so() {
        assert!(document("X-Sendfile: /a\n\n").names_file);
        assert!(document("x-accel-redirect: /a\n\n").names_file);
        assert!(!document("X-Send: /a\n\n").names_file);
    }

    #[test]
    fn upgrade_is_kept_with_status_101() {
        let head = document("Status: 101\nUpgrade: websocket\nConnection: upgrade\n\n");
        assert_eq!(head.fields[UPGRADE], "websocket");
        assert!(!head.fields.contains_key("connection"));
    }

    #[test]
    fn script_control_is_parsed_and_removed() {
        let head = document("Script-Control: no-abort; X-Stream-Mode ;X-http-status=418\n\n");
        assert_eq!(head.control.body_mode, Some(BodyMode::Stream));
        assert_eq!(head.status.as_u16(), 418);
        assert!(head.fields.is_empty());
        assert_eq!(
            document("Status: 404\nScript-Control: X-http-status=500\n\n").status,
            StatusCode::NOT_FOUND
        );
        let twice = document("Script-Control: X-record-mode\nScript-Control: X-stream-mode\n\n");
        assert_eq!(twice.control.body_mode, Some(BodyMode::Stream));
    }

    /// A field of a head: mostly one with a meaning for the server, and often the same one again.
    fn line() -> impl Strategy<Value = (HeaderName, HeaderValue)> {
        let names = [
            "status",
            "script-control",
            "content-length",
            "content-type",
            "transfer-encoding",
            "location",
            "connection",
            "upgrade",
            "te",
            "trailer",
            "proxy-authenticate",
            "proxy-authorization",
            "keep-alive",
            "proxy-connection",
            "x-sendfile",
            "x-accel-redirect",
            "x-a",
        ];
        let values = ["404 Not Found", "101", "12", "chunked", "/a", "X-error=1", ""];
        let field = (
            prop::sample::select(names.to_vec()),
            prop::sample::select(values.to_vec()),
        );
        field.prop_map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    }

    proptest! {
        #[test]
        fn a_local_redirect_is_always_a_uri_path(location in "/[^\\x00-\\x1f\\x7f]{0,40}") {
            let Ok(value) = HeaderValue::from_str(&location) else { return Ok(()) };
            if let Some(path) = local_path(&value) {
                prop_assert!(path.starts_with('/') && !path.starts_with("//"));
                prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'));
            }
        }

        /// The reply is the same if each of the special fields is looked up, whether the head has it or not.
        #[test]
        fn only_special_fields_that_are_there_are_looked_up(lines in prop::collection::vec(line(), 0..8)) {
            let fields: HeaderMap = lines.into_iter().collect();
            // Of a head that has all of them each is looked up.
            let all = SpecialFields {
                status: true,
                control: true,
                content_length: true,
                transfer_encoding: true,
                location: true,
                hop_by_hop: true,
                repeated: true,
                send_file: SpecialFields::of(&fields).send_file,
            };
            let fast = format!("{:?}", parsed(fields.clone()));
            prop_assert_eq!(fast, format!("{:?}", classify(fields, all)));
        }
    }
}
