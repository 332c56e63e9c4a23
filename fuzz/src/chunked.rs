//! The chunks of a reply that has framed its body: bytes in, the body out.
//!
//! Properties: the result does not depend on how the body is split; every byte of the body stands in the input; a body that was decoded,
//! framed again, is decoded to itself; messages about wrong chunks are one printable line.

use bytes::Bytes;
use sluice_gateway::{ChunkDecoder, ChunkFault};

use crate::input::{Input, chunks};

/// The body, the bytes after its end, and whether it is complete.
type Decoded = (Vec<u8>, Vec<u8>, bool);

/// Input: two lengths of chunks, the framed body.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let lengths = [usize::from(input.byte()), usize::from(input.byte())];
    let text = input.rest();
    let whole = decode(&chunks(text, &[usize::MAX]));
    for lengths in [&lengths[..], &[1]] {
        let split = decode(&chunks(text, lengths));
        assert_eq!(
            split.as_ref().ok(),
            whole.as_ref().ok(),
            "split into chunks of {lengths:?} bytes"
        );
    }
    match whole {
        Ok((body, rest, is_complete)) => {
            assert!(text.ends_with(&rest) && body.len() + rest.len() <= text.len());
            assert!(is_complete || rest.is_empty());
            let framed = match body.len() {
                0 => "0\r\n\r\n".into(),
                length => [format!("{length:x}\r\n").as_bytes(), &body, b"\r\n0\r\n\r\n"].concat(),
            };
            assert_eq!(decode(&[framed.into()]).expect("chunks"), (body, Vec::new(), true));
        }
        Err(fault) => {
            let message = fault.to_string();
            assert!(!message.chars().any(char::is_control), "{message:?}");
        }
    }
}

fn decode(chunks: &[Bytes]) -> Result<Decoded, ChunkFault> {
    let mut decoder = ChunkDecoder::default();
    let (mut body, mut rest) = (Vec::new(), Vec::new());
    for chunk in chunks {
        let mut chunk = chunk.clone();
        body.extend_from_slice(&decoder.decode(&mut chunk)?);
        rest.extend_from_slice(&chunk);
    }
    // A fault may be behind the last bytes.
    decoder.decode(&mut Bytes::new())?;
    Ok((body, rest, decoder.is_complete()))
}
