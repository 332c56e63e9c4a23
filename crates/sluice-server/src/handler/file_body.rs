//! A file on its way out: exactly the bytes that it had when its length was announced, or a cut.

use std::fs::File;
use std::io::{self, ErrorKind};
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

    /// Bytes still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// All of it at once, for small files.
    pub(crate) fn gather(self) -> io::Result<Bytes> {
        read_whole(&self.file, self.left)
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

/// The first `bytes` bytes of a file; an error if it has fewer by now.
pub(crate) fn read_whole(file: &File, bytes: u64) -> io::Result<Bytes> {
    let mut whole = read_at(file, 0, bytes)?;
    // A read may return less than there is.
    while (whole.len() as u64) < bytes {
        let at = whole.len() as u64;
        let more = read_at(file, at, bytes - at)?;
        if more.is_empty() {
            return Err(shrank(bytes - at));
        }
        whole.extend_from_slice(&more);
    }
    Ok(whole.into())
}

fn read_at(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
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

fn shrank(missing: u64) -> io::Error {
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
}
