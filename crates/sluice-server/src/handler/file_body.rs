//! A file on its way out: exactly the bytes that it had when its length was announced, or a cut.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::buffer::spare_capacity;

use crate::fault::Fault;
use crate::write::body::{PIECE_BYTES, Source};

/// A file that is read while it is sent.
pub(crate) struct FileBody {
    file: Arc<File>,
    at: u64,
    left: u64,
}

impl FileBody {
    /// The first `bytes` bytes of a file.
    pub(crate) fn new(file: Arc<File>, bytes: u64) -> FileBody {
        FileBody {
            file,
            at: 0,
            left: bytes,
        }
    }

    /// A part of the same file; as much of the range as this is to send.
    pub(crate) fn slice(&self, range: &Range<u64>) -> FileBody {
        let (start, end) = (range.start.min(self.left), range.end.min(self.left));
        FileBody {
            file: Arc::clone(&self.file),
            at: self.at + start,
            left: end.saturating_sub(start),
        }
    }

    /// The file that it is read from.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Bytes still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// All of it at once, for small files.
    pub(crate) fn gather(self) -> io::Result<Bytes> {
        read_part(&self.file, self.at, self.left)
    }

    fn read(&mut self) -> io::Result<Bytes> {
        let piece = read_at(&self.file, self.at, self.left.min(PIECE_BYTES as u64))?;
        if piece.is_empty() {
            return Err(shrank(self.left));
        }
        self.at += piece.len() as u64;
        self.left -= piece.len() as u64;
        Ok(piece.into())
    }
}

impl Source for FileBody {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = self.read();
        Poll::Ready(Some(piece.map_err(|error| Fault::server(format!("file: {error}")))))
    }

    fn length(&self) -> Option<u64> {
        Some(self.left)
    }
}

/// `bytes` bytes of a file from an offset on; an error if it has fewer by now.
pub(crate) fn read_part(file: &File, at: u64, bytes: u64) -> io::Result<Bytes> {
    let mut part = read_at(file, at, bytes)?;
    // A read may return less than there is.
    while (part.len() as u64) < bytes {
        let read = part.len() as u64;
        let more = read_at(file, at + read, bytes - read)?;
        if more.is_empty() {
            return Err(shrank(bytes - read));
        }
        part.extend_from_slice(&more);
    }
    Ok(part.into())
}

/// Up to `bytes` bytes of a file from `at` on, fewer only at its end or where the system likes; none at its end.
pub(crate) fn read_at(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    // The spare capacity is all that is read into, so it is exactly what is wanted.
    let mut piece = Vec::with_capacity(bytes);
    if bytes > 0 {
        rustix::io::pread(file, spare_capacity(&mut piece), at)?;
    }
    // with_capacity may give more than was asked for: what the file has gained meanwhile is not sent.
    piece.truncate(bytes);
    Ok(piece)
}

/// The file ended before the bytes that it had when it was opened.
pub(crate) fn shrank(missing: u64) -> io::Error {
    let text = format!("shrank while it was sent, {missing} bytes are missing");
    io::Error::new(ErrorKind::UnexpectedEof, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_shrinks_is_a_fault_not_an_end() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        std::fs::write(&path, vec![0; 1_000_000]).unwrap();
        let mut body = FileBody::new(Arc::new(File::open(&path).unwrap()), 1_000_000);
        assert_eq!(body.read().unwrap().len(), 256 << 10);
        std::fs::write(&path, "").unwrap();
        assert_eq!(body.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_part_is_read_from_its_place_and_never_beyond_the_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        std::fs::write(&path, "0123456789, grown meanwhile").unwrap();
        let body = FileBody::new(Arc::new(File::open(&path).unwrap()), 10);
        let gathered = |part: FileBody| part.gather().unwrap();
        assert_eq!(gathered(body.slice(&(2..5))), "234");
        assert_eq!(gathered(body.slice(&(2..8)).slice(&(1..3))), "34");
        assert_eq!(gathered(body.slice(&(8..20))), "89");
        assert_eq!(gathered(body.slice(&(20..30))), "");
        let mut part = body.slice(&(4..6));
        assert_eq!((part.read().unwrap(), part.left()), (Bytes::from("45"), 0));
        std::fs::write(&path, "01234").unwrap();
        let error = body.slice(&(4..6)).gather().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
