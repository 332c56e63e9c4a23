//! The form of a message between server and launcher: that of postcard.
//!
//! Whatever arrives is checked: a message that is too short, or that has a rest, is malformed.

use serde::{Deserialize, Serialize};

/// A message that is not as it must be, and in which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

const USUAL_BYTES: usize = 256;

pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    encode_long(message, 0)
}

/// Makes a message that has so many bytes more than most, so that its memory is allocated once.
pub(crate) fn encode_long(message: &impl Serialize, bytes: usize) -> Vec<u8> {
    postcard::to_extend(message, Vec::with_capacity(USUAL_BYTES + bytes))
        .expect("its values are plain, and memory is all that it needs")
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<T, Malformed> {
    let (read, rest) = postcard::take_from_bytes(message).map_err(|_| Malformed("the kind, or a value"))?;
    match rest {
        [] => Ok(read),
        _ => Err(Malformed("a rest")),
    }
}
