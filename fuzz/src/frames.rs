//! The frames of HTTP/2 as WATCH shows them: the bytes of one direction in, frames as text out.
//!
//! Properties: the result does not depend on how the bytes are split; the text of a frame is one printable line; a reader that resumes is at
//! the end of a frame.

use sluice_net::frames::{Frame, FrameReader};

use crate::input::{Input, chunks};

/// SETTINGS with ACK.
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
    for line in &whole {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    if let Some(mut reader) = FrameReader::resume(text) {
        assert_eq!(lines(&FrameReader::at_frame().read(text)), lines(&reader.read(text)));
        assert_eq!(lines(&reader.read(ACK)), ["SETTINGS, ACK"]);
    }
}

fn read(reader: &FrameReader, bytes: &[u8], lengths: &[usize]) -> Vec<String> {
    let mut reader = reader.clone();
    let chunks = chunks(bytes, lengths).into_iter();
    chunks.flat_map(|chunk| lines(&reader.read(&chunk))).collect()
}

fn lines(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(ToString::to_string).collect()
}
