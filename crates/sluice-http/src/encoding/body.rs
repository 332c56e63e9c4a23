//! A body that is compressed while it is sent.
//!
//! All chunks that the source has ready go into the compressor together; when the source pauses, the compressor is flushed. So
//! the client can read each line of a script that pauses after it at once, and the output of a script that does not pause is
//! compressed well. Chunks are copied before they are compressed, because a script may still change those of a memory buffer,
//! and a compressor may rely on bytes that it has read before. A fault aborts the response before the end mark of the coding, so that a client detects the truncation.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::body::Source;
use crate::encoding::Encoding;
use crate::encoding::encoder::{Effort, Encoder};
use crate::fault::{Activity, Fault, ServerFault};
use crate::tasks::yield_now;

/// Bytes compressed at once, before the other tasks of the worker run.
pub const TURN_BYTES_MAX: usize = 64 << 10;

/// Bytes copied at once for the compressor: they stay in the processor's first cache.
const COPY_BYTES_MAX: usize = 16 << 10;

/// Compressed bytes that are sent as a chunk while more will follow.
const CHUNK_BYTES: usize = 16 << 10;

/// A body that is compressed while it is sent.
pub struct EncodedBody {
    /// `None` if all bytes are in `rest`.
    source: Option<Box<dyn Source>>,
    /// `None` after the end.
    encoder: Option<Encoder>,
    /// The part of the source's last chunk that is not compressed yet.
    rest: Bytes,
    copy: Vec<u8>,
    /// The compressor has input that the client cannot read yet.
    holds_back: bool,
}

impl EncodedBody {
    /// Compresses the chunks of a source. An error means that the system has no memory.
    pub fn from_source(encoding: Encoding, mut source: Box<dyn Source>) -> io::Result<EncodedBody> {
        source.prefer_small_chunks();
        EncodedBody::new(encoding, Bytes::new(), Some(source))
    }

    /// Compresses bytes that are too many for one turn. An error means that the system has no memory.
    pub fn from_whole(encoding: Encoding, whole: Bytes) -> io::Result<EncodedBody> {
        EncodedBody::new(encoding, whole, None)
    }

    fn new(encoding: Encoding, rest: Bytes, source: Option<Box<dyn Source>>) -> io::Result<EncodedBody> {
        Ok(EncodedBody {
            source,
            encoder: Some(Encoder::new(encoding, Effort::Passing)?),
            rest,
            copy: Vec::new(),
            holds_back: false,
        })
    }

    fn poll(&mut self, context: &mut Context<'_>) -> io::Result<Poll<Option<Result<Bytes, Fault>>>> {
        let mut left = TURN_BYTES_MAX;
        loop {
            let Some(encoder) = &mut self.encoder else {
                return Ok(Poll::Ready(None));
            };
            if self.rest.is_empty() {
                let Some(source) = &mut self.source else {
                    return self.finish();
                };
                match source.poll_chunk(context) {
                    Poll::Ready(Some(Ok(chunk))) => self.rest = chunk,
                    Poll::Ready(Some(Err(fault))) => return Ok(Poll::Ready(Some(Err(fault)))),
                    Poll::Ready(None) => return self.finish(),
                    Poll::Pending if self.holds_back => {
                        encoder.flush()?;
                        self.holds_back = false;
                        let chunk = encoder.take();
                        // The output may be empty; the source wakes the task when it continues.
                        return Ok(if chunk.is_empty() { Poll::Pending } else { ready(chunk) });
                    }
                    Poll::Pending => return Ok(Poll::Pending),
                }
            }
            let bytes = self.rest.len().min(left).min(COPY_BYTES_MAX);
            // Not `advance`, which would keep the chunk until the next one, and its part of a memory buffer from being refilled.
            let part = self.rest.split_to(bytes);
            self.copy.clear();
            self.copy.extend_from_slice(&part);
            drop(part);
            encoder.write(&self.copy)?;
            self.holds_back = true;
            left -= bytes;
            if encoder.ready_bytes() >= CHUNK_BYTES {
                return Ok(ready(encoder.take()));
            }
            if left == 0 {
                yield_now(context);
                return Ok(Poll::Pending);
            }
        }
    }

    fn finish(&mut self) -> io::Result<Poll<Option<Result<Bytes, Fault>>>> {
        let last = self.encoder.take().map(Encoder::finish).transpose()?;
        let last = last.filter(|chunk| !chunk.is_empty());
        Ok(last.map_or(Poll::Ready(None), ready))
    }
}

/// A chunk that is ready to be sent; never empty.
fn ready(chunk: Vec<u8>) -> Poll<Option<Result<Bytes, Fault>>> {
    Poll::Ready(Some(Ok(chunk.into())))
}

impl Source for EncodedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let polled = self.poll(context);
        polled.unwrap_or_else(|error| Poll::Ready(Some(Err(ServerFault::io(Activity::Compression, error).into()))))
    }

    fn limit_chunks(&mut self, bytes_max: usize) {
        if let Some(source) = &mut self.source {
            source.limit_chunks(bytes_max);
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn discard(self: Box<Self>) {
        if let Some(source) = self.source {
            source.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::encoding::encoder::decode;

    /// Returns these chunks; `None` is a pause.
    struct Scripted(VecDeque<Option<Result<Bytes, Fault>>>);

    impl Source for Scripted {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
            match self.0.pop_front() {
                Some(Some(chunk)) => Poll::Ready(Some(chunk)),
                Some(None) => Poll::Pending,
                None => Poll::Ready(None),
            }
        }

        fn length(&self) -> Option<u64> {
            Some(1)
        }
    }

    fn body(encoding: Encoding, chunks: impl IntoIterator<Item = Option<Result<Bytes, Fault>>>) -> EncodedBody {
        EncodedBody::from_source(encoding, Box::new(Scripted(chunks.into_iter().collect()))).unwrap()
    }

    fn chunk(text: &str) -> Option<Result<Bytes, Fault>> {
        Some(Ok(Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Reads until the body pauses (`None`) or ends.
    fn drain(body: &mut EncodedBody, sent: &mut Vec<u8>) -> Option<Result<(), String>> {
        // `yield_now` outside a task wakes at once.
        let mut context = Context::from_waker(std::task::Waker::noop());
        loop {
            match body.poll_chunk(&mut context) {
                Poll::Pending => return None,
                Poll::Ready(Some(Ok(chunk))) => {
                    assert!(!chunk.is_empty());
                    sent.extend_from_slice(&chunk);
                }
                Poll::Ready(Some(Err(fault))) => return Some(Err(fault.to_string())),
                Poll::Ready(None) => return Some(Ok(())),
            }
        }
    }

    #[test]
    fn chunks_before_a_pause_can_be_read_during_it() {
        for encoding in Encoding::ALL {
            let chunks = [chunk("one\n"), chunk("two\n"), None, None, chunk("three\n"), None, None];
            let mut body = body(encoding, chunks);
            assert_eq!(body.length(), None);
            let mut sent = Vec::new();
            assert_eq!(drain(&mut body, &mut sent), None);
            assert_eq!(decode(encoding, &sent).0, b"one\ntwo\n", "{encoding}");
            assert_eq!(drain(&mut body, &mut sent), None);
            assert_eq!(decode(encoding, &sent).0, b"one\ntwo\nthree\n", "{encoding}");
            assert_eq!(drain(&mut body, &mut sent), Some(Ok(())));
            let (read, result) = decode(encoding, &sent);
            assert!(result.is_ok() && read == b"one\ntwo\nthree\n", "{encoding}");
        }
    }

    #[test]
    fn a_pause_with_nothing_held_back_does_not_end_the_body() {
        // A few words repeated: after 1.5 MiB of these the brotli library holds nothing back.
        let mut state = 0x1557_631f_4351_a341_u64;
        let mut draw = |below: usize| {
            // Knuth's MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut word = || -> Vec<u8> { (0..250).map(|_| b"abcdefghijklmnopqrst"[draw(20)]).collect() };
        let words = [word(), word(), word(), word(), word()];
        let text = std::iter::repeat_with(|| &words[draw(5)]).flatten().copied();
        let text: Vec<u8> = text.take(24 * TURN_BYTES_MAX).collect();
        for encoding in Encoding::ALL {
            let chunks = text.chunks(TURN_BYTES_MAX);
            let chunks = chunks.map(|chunk| Some(Ok(Bytes::copy_from_slice(chunk))));
            let mut body = body(encoding, chunks.chain([None, chunk("TAIL")]));
            let mut sent = Vec::new();
            while drain(&mut body, &mut sent).is_none() {}
            let (read, result) = decode(encoding, &sent);
            assert!(result.is_ok(), "{encoding}: {result:?}");
            assert!(
                read.strip_suffix(b"TAIL") == Some(&*text),
                "{encoding}: {} bytes",
                read.len()
            );
        }
    }

    #[test]
    fn a_fault_leaves_the_compressed_bytes_without_their_end() {
        for encoding in Encoding::ALL {
            let fault = Fault::unexpected("it broke");
            let mut body = body(encoding, [chunk("one\n"), None, Some(Err(fault))]);
            let mut sent = Vec::new();
            assert_eq!(drain(&mut body, &mut sent), Some(Err("it broke".into())), "{encoding}");
            let (read, result) = decode(encoding, &sent);
            assert!(result.is_err() && read == b"one\n", "{encoding}");
        }
    }

    #[test]
    fn bulk_yields_to_other_tasks_after_each_turn() {
        for encoding in Encoding::ALL {
            let zeros = Bytes::from(vec![0; 1 << 20]);
            let mut body = body(encoding, [Some(Ok(zeros.clone())), Some(Ok(zeros))]);
            let (mut sent, mut pauses) = (Vec::new(), 0);
            while drain(&mut body, &mut sent).is_none() {
                pauses += 1;
            }
            assert_eq!(pauses, 32, "{encoding}: a pause for each 64 KiB");
            let (read, result) = decode(encoding, &sent);
            assert!(result.is_ok() && read == vec![0; 2 << 20], "{encoding}");

            let mut body = EncodedBody::from_whole(encoding, Bytes::from(vec![0; 1 << 20])).unwrap();
            let (mut sent, mut pauses) = (Vec::new(), 0);
            while drain(&mut body, &mut sent).is_none() {
                pauses += 1;
            }
            assert_eq!(pauses, 16, "{encoding}");
            assert!(decode(encoding, &sent).0 == vec![0; 1 << 20]);
        }
    }
}
