//! The head of a script's reply: bytes in; status, fields and the kind of the reply out.
//!
//! Properties: the result does not depend on how the head is split; what reaches the client holds no field of the connection;
//! a local redirect is a path of a URI; a head that was accepted, written again, is accepted and means the same; messages about
//! a wrong head are one printable line.

use bytes::Bytes;
use sluice_gateway::{HeadFault, HeadLimits, HeadParser, RecordLines, Reply, ReplyHead};

use crate::callout::directives;
use crate::input::{Input, chunks};

/// Bounds that no head of the fuzzer's reaches, not even one with a line or two added.
const WIDE: HeadLimits = HeadLimits { bytes_max: 1 << 20, fields_max: 1 << 15 };

/// Input: the bound of bytes in units of 32, the bound of fields, two lengths of chunks, the script's output.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let limits = HeadLimits {
        bytes_max: 32 * (1 + usize::from(input.byte())),
        fields_max: usize::from(input.byte()),
    };
    let lengths = [usize::from(input.byte()), usize::from(input.byte())];
    let text = input.rest();
    let whole = read(&chunks(text, &[usize::MAX]), limits, HeadParser::push);
    for lengths in [&lengths[..], &[1]] {
        let split = read(&chunks(text, lengths), limits, HeadParser::push);
        assert_eq!(
            format!("{split:?}"),
            format!("{whole:?}"),
            "split into chunks of {lengths:?} bytes"
        );
    }
    check_records(text, limits);
    match whole {
        Ok((reply, rest)) => {
            assert!(text.ends_with(&rest));
            let head_bytes = text.len() - rest.len();
            assert!(
                head_bytes <= limits.bytes_max,
                "{head_bytes} bytes are within the limit"
            );
            check_reply(&reply, limits);
        }
        Err(fault) => {
            let message = fault.to_string();
            assert!(
                !message.is_empty() && !message.chars().any(char::is_control),
                "{message:?}"
            );
        }
    }
}

type Push = fn(&mut HeadParser, Bytes) -> Result<Option<(Reply, Bytes)>, HeadFault>;

/// Pushes chunks until the head is complete: the reply, and all bytes after its head.
fn read(chunks: &[Bytes], limits: HeadLimits, push: Push) -> Result<(Reply, Bytes), HeadFault> {
    let mut parser = HeadParser::new(limits);
    for (index, chunk) in chunks.iter().enumerate() {
        if let Some((reply, rest)) = push(&mut parser, chunk.clone())? {
            return Ok((reply, [&rest[..], &chunks[index + 1..].concat()].concat().into()));
        }
    }
    Err(parser.finish())
}

/// Records that are whole lines mean what the same lines in a stream mean.
fn check_records(text: &[u8], limits: HeadLimits) {
    let lines: Vec<Bytes> = text
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
        .map(Bytes::copy_from_slice)
        .collect();
    let push_record: Push = |parser, record| {
        let missing = RecordLines::default().next(&record);
        parser.push_record(record, missing)
    };
    let records = read(&lines, limits, push_record);
    let stream = read(&lines, limits, HeadParser::push);
    assert_eq!(format!("{records:?}"), format!("{stream:?}"));
}

fn check_reply(reply: &Reply, limits: HeadLimits) {
    let (head, is_parsed) = match reply {
        Reply::LocalRedirect(path) => {
            assert!(path.starts_with('/') && !path.starts_with("//"), "{path:?}");
            assert!(
                path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'),
                "{path:?}"
            );
            return;
        }
        Reply::Document(head) | Reply::ClientRedirect(head) => (head, true),
        Reply::NonParsed(head) => (head, false),
    };
    let status = head.status.as_u16();
    assert!(status == 101 || (200..600).contains(&status), "status {status}");
    assert!(head.fields.len() <= limits.fields_max);
    assert!(matches!(reply, Reply::ClientRedirect(_)) <= head.status.is_redirection());
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "te",
        "trailer",
        "content-length",
        "status",
        "script-control",
    ] {
        assert!(!head.fields.contains_key(name), "{name} is for the server");
    }
    for name in ["content-type", "location"] {
        assert!(head.fields.get_all(name).iter().count() <= 1, "{name} stands once");
    }
    let again = read(&[written(head, is_parsed)], WIDE, HeadParser::push);
    let Ok((again, rest)) = again else {
        panic!("{again:?} instead of {reply:?}")
    };
    assert!(rest.is_empty());
    assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(reply));
    let (Reply::Document(again) | Reply::ClientRedirect(again) | Reply::NonParsed(again)) = again else {
        panic!("{again:?} instead of {reply:?}")
    };
    // Not by their texts: the order of different fields means nothing.
    assert_eq!(again.fields, head.fields);
    assert_eq!(
        (again.status, again.content_length, directives(&again.control)),
        (head.status, head.content_length, directives(&head.control))
    );
}

/// A head that means this.
fn written(head: &ReplyHead, is_parsed: bool) -> Bytes {
    let status = head.status.as_u16();
    let first = if is_parsed { "Status:" } else { "HTTP/1.1" };
    let mut text = format!("{first} {status}\nScript-Control: {}\n", directives(&head.control)).into_bytes();
    if let Some(bytes) = head.content_length {
        text.extend(format!("Content-Length: {bytes}\n").bytes());
    }
    for (name, value) in &head.fields {
        text.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat());
    }
    text.push(b'\n');
    text.into()
}
