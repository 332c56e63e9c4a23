//! The form of a message between server and launcher: that of postcard.
//!
//! Whatever arrives is checked: a message that is too short, or that has a rest, is malformed. Not here: the messages (`message`), and the
//! bounds of their values (`program_wire`).

use serde::{Deserialize, Serialize};

/// A message that is not as it must be, and in which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Makes a message.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(message, Vec::with_capacity(256))
        .expect("its values are plain, and memory is all that it needs")
}

/// Reads a message.
pub(crate) fn decode<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<T, Malformed> {
    let (read, rest) = postcard::take_from_bytes(message).map_err(|_| Malformed("the kind, or a value"))?;
    match rest {
        [] => Ok(read),
        _ => Err(Malformed("a rest")),
    }
}
