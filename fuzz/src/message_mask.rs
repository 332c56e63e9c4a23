//! The masks of WATCH for the bytes of a connection of HTTP/1 and for bodies: bytes in, the same with `*` for secrets out.
//!
//! Properties: the length is unchanged, and a byte is unchanged or `*`; the result does not depend on how forms and JSON are split
//! (that of parts may, in what is `*`); whatever comes before
//! and however it is split, a field with a password and a password in a query are hidden; what masks nothing changes nothing.

use sluice_watch::mask::{BodyMask, HeadMask, Masks};

use crate::input::{Input, chunks};

/// A text that is in no seed.
const SECRET: &str = "5eCr3t";

/// Input: two lengths of chunks, the bytes.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let lengths = [usize::from(input.byte()), usize::from(input.byte())];
    let text = input.rest();
    let masks = Masks::default();
    for lengths in [&lengths[..], &[1], &[usize::MAX]] {
        for with_secret in [
            format!("\nAuthorization: Basic {SECRET}\r\n"),
            format!("\r\nX-Api-Token: {SECRET}\n more {SECRET}\n"),
            format!(" /?a=b&password={SECRET} HTTP/1.1\r\n"),
        ] {
            let stream = [text, with_secret.as_bytes()].concat();
            for mut mask in [HeadMask::of(&masks), HeadMask::within_of(&masks)] {
                let shown = apply(&stream, lengths, |chunk| mask.apply(chunk));
                let end = String::from_utf8_lossy(&shown[text.len()..]);
                assert!(!end.contains(SECRET), "{end:?}");
            }
        }
    }
    // A delimiter after a secret stays hidden as far as it was in an earlier chunk.
    let is_parts = text.windows(2).any(|pair| pair == b"--");
    for kind in ["application/json", "application/x-www-form-urlencoded", "image/png"] {
        let mask = || masks.body(Some(kind), false);
        let masked = |mut mask: BodyMask, lengths: &[usize]| apply(text, lengths, |chunk| mask.apply(chunk));
        let whole = masked(mask(), &[usize::MAX]);
        for lengths in [&lengths[..], &[1]] {
            let split = masked(mask(), lengths);
            if is_parts {
                let mut pairs = split.iter().zip(&whole);
                assert!(pairs.all(|(one, other)| one == other || *one == b'*' || *other == b'*'));
            } else {
                assert_eq!(split, whole, "{kind} split into chunks of {lengths:?} bytes");
            }
        }
    }
    let mut guessed = masks.body(None, false);
    apply(text, &lengths, |chunk| guessed.apply(chunk));
    let mut parts = masks.body(Some("multipart/form-data; boundary=b"), false);
    apply(text, &lengths, |chunk| parts.apply(chunk));
    let mut off = HeadMask::within_of(&Masks::off());
    assert_eq!(apply(text, &lengths, |chunk| off.apply(chunk)), text);
}

/// The bytes after a mask.
fn apply(bytes: &[u8], lengths: &[usize], mut mask: impl FnMut(&mut [u8])) -> Vec<u8> {
    let mut shown = Vec::new();
    for chunk in chunks(bytes, lengths) {
        let mut chunk = chunk.to_vec();
        mask(&mut chunk);
        shown.extend(chunk);
    }
    assert_eq!(shown.len(), bytes.len());
    assert!(
        shown
            .iter()
            .zip(bytes)
            .all(|(shown, byte)| shown == byte || *shown == b'*')
    );
    shown
}
