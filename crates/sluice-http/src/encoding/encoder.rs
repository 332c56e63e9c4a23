//! Compressing: bytes in, fewer bytes out, in any of the codings.
//!
//! Here: the libraries behind one face, and how hard they try. Not here: which coding it is to be (`accept_encoding`), and bodies
//! that are compressed while they are sent (`encoded_body`).

use std::io::{self, Write};

use brotli::CompressorWriter;
use flate2::write::GzEncoder;

use crate::encoding::Encoding;

/// Bytes of the buffer by which the brotli library hands its output on.
const BROTLI_BUFFER_BYTES: usize = 16 << 10;

/// How hard a compressor tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A thread that may take its time makes it once, and it is sent many times.
    Kept,
    /// A worker makes it while others wait, and it is sent once. The window is small, 256 KiB, since each response under way has
    /// its own.
    Passing,
}

/// A compressor with the bytes that have come out of it.
pub struct Encoder(Kind);

enum Kind {
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Encoder {
    /// An error is the system's: no memory.
    pub fn new(encoding: Encoding, effort: Effort) -> io::Result<Encoder> {
        let is_kept = effort == Effort::Kept;
        Ok(Encoder(match encoding {
            Encoding::Brotli => {
                let (quality, window_log) = if is_kept { (6, 22) } else { (4, 18) };
                let writer = CompressorWriter::new(Vec::new(), BROTLI_BUFFER_BYTES, quality, window_log);
                Kind::Brotli(Box::new(writer))
            }
            Encoding::Zstd => {
                let window_log = if is_kept { 22 } else { 18 };
                let mut encoder = zstd::Encoder::new(Vec::new(), zstd_level(effort))?;
                // No more than 8 MiB, which is all that clients must take (RFC 9659 §3).
                encoder.window_log(window_log)?;
                Kind::Zstd(encoder)
            }
            Encoding::Gzip => {
                let level = flate2::Compression::new(if is_kept { 7 } else { 4 });
                Kind::Gzip(GzEncoder::new(Vec::new(), level))
            }
        }))
    }

    /// Takes bytes in; what comes out of them may come later.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Kind::Brotli(writer) => writer.write_all(bytes),
            Kind::Zstd(writer) => writer.write_all(bytes),
            Kind::Gzip(writer) => writer.write_all(bytes),
        }
    }

    /// Makes all that was taken in come out, so that the client can read it now. It costs some bytes each time.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Brotli(writer) => writer.flush(),
            Kind::Zstd(writer) => writer.flush(),
            Kind::Gzip(writer) => writer.flush(),
        }
    }

    /// Bytes that have come out and were not taken.
    pub fn ready_bytes(&self) -> usize {
        match &self.0 {
            Kind::Brotli(writer) => writer.get_ref().len(),
            Kind::Zstd(writer) => writer.get_ref().len(),
            Kind::Gzip(writer) => writer.get_ref().len(),
        }
    }

    /// Takes what has come out.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.0 {
            Kind::Brotli(writer) => writer.get_mut(),
            Kind::Zstd(writer) => writer.get_mut(),
            Kind::Gzip(writer) => writer.get_mut(),
        })
    }

    /// Endpoints it, with the mark by which a client knows that it has all.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.0 {
            Kind::Brotli(writer) => Ok(writer.into_inner()),
            Kind::Zstd(writer) => writer.finish(),
            Kind::Gzip(writer) => writer.finish(),
        }
    }
}

/// At both of these the window is 4 MiB at most.
fn zstd_level(effort: Effort) -> i32 {
    match effort {
        Effort::Kept => 12,
        Effort::Passing => 3,
    }
}

/// Compresses bytes that are all there.
pub fn encode(encoding: Encoding, effort: Effort, content: &[u8]) -> io::Result<Vec<u8>> {
    if encoding == Encoding::Zstd {
        // It takes as much memory as the content needs, where it knows that beforehand.
        return zstd::bulk::compress(content, zstd_level(effort));
    }
    let mut encoder = Encoder::new(encoding, effort)?;
    encoder.write(content)?;
    encoder.finish()
}

/// What a client makes of compressed bytes; those that end early give what can be read of them.
#[cfg(test)]
pub fn decode(encoding: Encoding, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
    use std::io::Read;

    let mut reader: Box<dyn Read + '_> = match encoding {
        Encoding::Brotli => Box::new(brotli::Decompressor::new(bytes, 4096)),
        Encoding::Zstd => Box::new(zstd::Decoder::new(bytes).unwrap()),
        Encoding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
    };
    let mut content = Vec::new();
    let result = reader.read_to_end(&mut content).map(drop);
    (content, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: usize) -> Vec<u8> {
        (0..lines)
            .flat_map(|line| format!("line {line}\n").into_bytes())
            .collect()
    }

    #[test]
    fn what_is_compressed_is_read_back_and_is_shorter() {
        for encoding in Encoding::ALL {
            for effort in [Effort::Kept, Effort::Passing] {
                let content = text(100_000);
                let encoded = encode(encoding, effort, &content).unwrap();
                assert!(
                    encoded.len() < content.len() / 3,
                    "{encoding} {effort:?}: {}",
                    encoded.len()
                );
                let (decoded, result) = decode(encoding, &encoded);
                assert!(result.is_ok() && decoded == content, "{encoding} {effort:?}");
                let nothing = encode(encoding, effort, b"").unwrap();
                let (decoded, result) = decode(encoding, &nothing);
                assert!(
                    result.is_ok() && decoded.is_empty() && !nothing.is_empty(),
                    "{encoding}"
                );
            }
        }
    }

    #[test]
    fn what_was_flushed_can_be_read_before_the_end_and_the_end_is_told() {
        for encoding in Encoding::ALL {
            let mut encoder = Encoder::new(encoding, Effort::Passing).unwrap();
            let (mut sent, mut written) = (Vec::new(), Vec::new());
            for round in 0..5 {
                let chunk = text(round * 1000 + 1);
                encoder.write(&chunk).unwrap();
                written.extend(chunk);
                encoder.flush().unwrap();
                assert!(encoder.ready_bytes() > 0);
                sent.extend(encoder.take());
                assert_eq!(encoder.ready_bytes(), 0);
                let (read, result) = decode(encoding, &sent);
                assert!(read == written, "{encoding}: {} of {}", read.len(), written.len());
                assert!(result.is_err(), "{encoding}: half was taken for the whole");
            }
            sent.extend(encoder.finish().unwrap());
            let (read, result) = decode(encoding, &sent);
            assert!(result.is_ok() && read == written, "{encoding}");
        }
    }
}
