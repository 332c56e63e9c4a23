//! The frames of HTTP/2 as WATCH shows them: the bytes of one direction in; frames, bodies and what must not be shown out.
//!
//! Properties: the result does not depend on how the bytes are split; bytes are either shown or hidden, never named twice; the text of a frame is one
//! printable line; the payload of a header block is hidden whatever came before it; a reader that resumes is at the end of a frame.

use sluice_net::frames::{Data, FrameReader, Seen};

use crate::input::{Input, chunks};

/// A header block, and SETTINGS with ACK.
const SECRET: &[u8] = b"\0\0\x06\x01\x04\0\0\0\x01secret";
const ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";

/// Input: whose bytes they are, two lengths of chunks, the bytes.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let reader = match input.byte() % 2 {
        0 => FrameReader::of_client(),
        _ => FrameReader::at_frame(),
    };
    let lengths = [usize::from(input.byte()), usize::from(input.byte())];
    let text = input.rest();
    let whole = read(&reader, text, &[usize::MAX]);
    for lengths in [&lengths[..], &[1]] {
        assert_eq!(
            read(&reader, text, lengths),
            whole,
            "split into chunks of {lengths:?} bytes"
        );
    }
    for line in &whole.lines {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    check_end(reader, text);
    if let Some(mut reader) = FrameReader::resume(text) {
        assert_eq!(lines(&FrameReader::at_frame().read(text)), lines(&reader.read(text)));
        assert_eq!(lines(&reader.read(ACK)), ["SETTINGS, ACK"]);
    }
}

/// The frames that were read, with each byte by itself.
#[derive(Debug, PartialEq, Eq)]
struct All {
    lines: Vec<String>,
    /// The stream of each byte of a body.
    bodies: Vec<Option<u32>>,
    hidden: Vec<bool>,
    ends: Vec<u32>,
}

fn read(reader: &FrameReader, bytes: &[u8], lengths: &[usize]) -> All {
    let mut reader = reader.clone();
    let mut all = All {
        lines: Vec::new(),
        bodies: vec![None; bytes.len()],
        hidden: vec![false; bytes.len()],
        ends: Vec::new(),
    };
    let mut begin = 0;
    for chunk in chunks(bytes, lengths) {
        let seen = reader.read(&chunk);
        all.lines.extend(lines(&seen));
        for secret in seen.secret.iter().cloned().flatten() {
            assert!(
                !std::mem::replace(&mut all.hidden[begin + secret], true),
                "hidden twice"
            );
        }
        for Data { stream, bytes, is_last } in seen.data {
            for at in bytes {
                assert_eq!(all.bodies[begin + at].replace(stream), None, "two bodies");
                assert!(!all.hidden[begin + at], "a body and hidden");
            }
            all.ends.extend(is_last.then_some(stream));
        }
        begin += chunk.len();
    }
    all
}

/// If the bytes end with a frame, the next header block is hidden.
fn check_end(mut reader: FrameReader, bytes: &[u8]) {
    reader.read(bytes);
    let mut behind = reader.clone();
    if lines(&behind.read(ACK)) == ["SETTINGS, ACK"] && lines(&behind.read(ACK)) == ["SETTINGS, ACK"] {
        let seen = reader.read(SECRET);
        let hidden: Vec<usize> = seen.secret.into_iter().flatten().collect();
        assert_eq!(hidden, (9..SECRET.len()).collect::<Vec<_>>());
    }
}

fn lines(seen: &Seen) -> Vec<String> {
    seen.frames.iter().map(ToString::to_string).collect()
}
