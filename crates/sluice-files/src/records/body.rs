//! The body of a record file that is converted to lines while it is sent.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use sluice_http::body::Source;
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_settings::record_format::RecordFormat;

use crate::body::Reader;
use crate::foreign::served_file::ServedFile;
use crate::records::decoder::Decoder;

/// The lines of a record file. Their length is not known before the end.
pub(crate) struct RecordBody {
    name: Box<str>,
    reader: Reader,
    decoder: Decoder,
    /// The error that ends the body, after the lines before it were handed on.
    fault: Option<Fault>,
    /// The connection had a chance to send these lines, because it drops what it has not sent when it gets the fault.
    has_yielded: bool,
}

impl RecordBody {
    pub(super) fn new(name: &str, file: Arc<ServedFile>, bytes: u64, format: RecordFormat) -> RecordBody {
        RecordBody {
            name: name.into(),
            reader: Reader::new(file, 0, bytes),
            decoder: Decoder::new(format),
            fault: None,
            has_yielded: false,
        }
    }

    /// Adds the lines of the next chunk, if any; also those before an error.
    fn decode(&mut self, chunk: &[u8], lines: &mut Vec<u8>) -> io::Result<()> {
        self.decoder.push(chunk, lines)?;
        if self.reader.has_ended() {
            self.decoder.finish()?;
        }
        Ok(())
    }
}

impl Source for RecordBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if self.fault.is_some() && !self.has_yielded {
            self.has_yielded = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(fault) = self.fault.take() {
            return Poll::Ready(Some(Err(fault)));
        }
        if self.reader.has_ended() {
            return Poll::Ready(None);
        }
        let mut lines = Vec::new();
        let chunk = ready!(self.reader.poll_read(context));
        if let Err(error) = chunk.and_then(|chunk| self.decode(&chunk, &mut lines)) {
            self.reader.end();
            let fault = Fault::from(ServerFault::io(Activity::File(self.name.clone()), error));
            if lines.is_empty() {
                return Poll::Ready(Some(Err(fault)));
            }
            self.fault = Some(fault);
        }
        if lines.is_empty() && !self.reader.has_ended() {
            // Only unused blocks: other connections run before the next chunk.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready((!lines.is_empty()).then(|| Ok(lines.into())))
    }

    fn limit_chunks(&mut self, bytes_max: usize) {
        self.reader.limit_chunks(bytes_max);
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const VARIABLE: RecordFormat = RecordFormat::Variable;

    /// The result of reading a body.
    struct Drained {
        bytes: Vec<u8>,
        fault: Option<String>,
        /// How often it was pending.
        pauses: usize,
    }

    fn body(content: &[u8]) -> RecordBody {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, content).unwrap();
        RecordBody::new("a", Arc::new(ServedFile::local(file)), content.len() as u64, VARIABLE)
    }

    fn drain(mut body: RecordBody) -> Drained {
        let (mut bytes, mut pauses) = (Vec::new(), 0);
        let mut context = Context::from_waker(Waker::noop());
        let fault = loop {
            match body.poll_chunk(&mut context) {
                Poll::Pending => pauses += 1,
                Poll::Ready(Some(Ok(chunk))) => {
                    assert!(!chunk.is_empty());
                    bytes.extend_from_slice(&chunk);
                }
                Poll::Ready(Some(Err(fault))) => break Some(fault.to_string()),
                Poll::Ready(None) => break None,
            }
        };
        Drained { bytes, fault, pauses }
    }

    #[test]
    fn lines_come_in_large_chunks_and_a_fault_comes_last() {
        let mut content = b"\x04\0good".repeat(100_000);
        let expected = b"good\n".repeat(100_000);
        let drained = drain(body(&content));
        assert!(drained.bytes == expected);
        assert_eq!((drained.fault, drained.pauses), (None, 0));
        content.extend(b"\0\x90");
        let fault = "file \"a\": byte 600000: a record of 36864 bytes, but none is longer than 32767";
        let drained = drain(body(&content));
        assert!(drained.bytes == expected);
        assert_eq!((drained.fault.as_deref(), drained.pauses), (Some(fault), 1));
    }

    #[test]
    fn unused_blocks_yield_no_chunk_and_let_others_run() {
        let mut content = b"\x02\0ab\xff\xff".to_vec();
        content.resize(512, 0);
        content.extend([0xff_u8; 512].repeat(2000));
        let Drained { bytes, fault, pauses } = drain(body(&content));
        assert_eq!((&bytes[..], fault), (&b"ab\n"[..], None));
        // One for each chunk: 64 KiB if the file is in the page cache, larger if not.
        assert!((2..=20).contains(&pauses), "{pauses} for a megabyte");
        content.extend(b"\x02\0cd");
        assert_eq!(drain(body(&content)).bytes, b"ab\ncd\n");
        let empty = drain(body(b""));
        assert_eq!((empty.bytes.len(), empty.fault), (0, None));
    }

    #[test]
    fn file_that_shrinks_is_a_fault() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &b"\x04\0good".repeat(100_000)).unwrap();
        file.set_len(300_000).unwrap();
        let drained = drain(RecordBody::new(
            "a",
            Arc::new(ServedFile::local(file)),
            600_000,
            VARIABLE,
        ));
        assert!(drained.bytes == b"good\n".repeat(50_000));
        assert!(drained.fault.unwrap().contains("shrank"));
    }
}
