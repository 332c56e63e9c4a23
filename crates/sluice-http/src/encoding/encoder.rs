//! Compressing bytes with any of the content codings.

use std::io::{self, Write};

use brotli::CompressorWriter;
use flate2::write::GzEncoder;

use crate::encoding::Encoding;

/// Bytes of the buffer between the brotli library and its output.
const BROTLI_BUFFER_BYTES: usize = 16 << 10;

/// The effort of a compressor, from which its level and window follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// High: a background thread compresses once, and the result is sent many times.
    Kept,
    /// Low: a worker compresses while other tasks wait. The window is small, 256 KiB, because each response has its own.
    Passing,
}

pub(crate) struct Encoder(Kind);

enum Kind {
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Encoder {
    /// A compressor for one body. An error means that the system has no memory.
    pub(crate) fn new(encoding: Encoding, effort: Effort) -> io::Result<Encoder> {
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
                // Below 8 MiB, the most that a client must support (RFC 9659 §3).
                encoder.window_log(window_log)?;
                Kind::Zstd(encoder)
            }
            Encoding::Gzip => {
                let level = flate2::Compression::new(if is_kept { 7 } else { 4 });
                Kind::Gzip(GzEncoder::new(Vec::new(), level))
            }
        }))
    }

    /// Compresses bytes; the output may be held back until later bytes, `flush` or `finish`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Kind::Brotli(writer) => writer.write_all(bytes),
            Kind::Zstd(writer) => writer.write_all(bytes),
            Kind::Gzip(writer) => writer.write_all(bytes),
        }
    }

    /// Puts out everything held back, so that the client can read it now. Each call costs some bytes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Brotli(writer) => writer.flush(),
            Kind::Zstd(writer) => writer.flush(),
            Kind::Gzip(writer) => writer.flush(),
        }
    }

    pub(crate) fn ready_bytes(&self) -> usize {
        match &self.0 {
            Kind::Brotli(writer) => writer.get_ref().len(),
            Kind::Zstd(writer) => writer.get_ref().len(),
            Kind::Gzip(writer) => writer.get_ref().len(),
        }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.0 {
            Kind::Brotli(writer) => writer.get_mut(),
            Kind::Zstd(writer) => writer.get_mut(),
            Kind::Gzip(writer) => writer.get_mut(),
        })
    }

    /// Ends the body with the end mark of the coding, by which a client recognizes that the body is complete.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self.0 {
            Kind::Brotli(writer) => Ok(writer.into_inner()),
            Kind::Zstd(writer) => writer.finish(),
            Kind::Gzip(writer) => writer.finish(),
        }
    }
}

/// The compression level of zstd. Both levels have windows of at most 4 MiB.
fn zstd_level(effort: Effort) -> i32 {
    match effort {
        Effort::Kept => 12,
        Effort::Passing => 3,
    }
}

/// Compresses a whole body. An error means that the system has no memory.
pub fn encode(encoding: Encoding, effort: Effort, content: &[u8]) -> io::Result<Vec<u8>> {
    if encoding == Encoding::Zstd {
        // With a known length, zstd allocates only as much memory as the content needs.
        return zstd::bulk::compress(content, zstd_level(effort));
    }
    let mut encoder = Encoder::new(encoding, effort)?;
    encoder.write(content)?;
    encoder.finish()
}

/// Decompresses as a client does; of truncated bytes it returns everything that can be read.
#[cfg(test)]
pub(crate) fn decode(encoding: Encoding, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
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
    fn compressed_bytes_are_shorter_and_decode_to_the_original() {
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
    fn flushed_bytes_can_be_read_at_once_and_truncation_is_detected() {
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
                assert!(result.is_err(), "{encoding}: truncation must be detected");
            }
            sent.extend(encoder.finish().unwrap());
            let (read, result) = decode(encoding, &sent);
            assert!(result.is_ok() && read == written, "{encoding}");
        }
    }
}
