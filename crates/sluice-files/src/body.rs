//! A file on its way out: exactly the bytes that it had when its length was announced, or a cut; and no worker waits for a
//! disk meanwhile.
//!
//! Here: a body made of a file ([`FileBody`]), and what reads one chunk by chunk for whoever makes something else of it
//! ([`Reader`]). Not here: which file (`file`), and how long content is kept (`cache`).
//!
//! What the kernel has in memory is read by the worker itself, which costs no more than any read. The first chunk that it
//! has not is read by a thread, and from there on the thread is one chunk ahead of what is sent, to the end of the file:
//! what follows is most likely not in memory either, and the next chunk comes from the disk while this one is taken by the
//! client. So it is, too, on file systems that cannot say what is in memory.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, fadvise};
use sluice_http::body::{CHUNK_BYTES, Source};
use sluice_http::fault::{Activity, Fault, ServerFault};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// What the worker reads by itself at once: little enough to be in the processor's own cache still when it is encrypted or sent
/// (100 MB, ten clients: 0.95 of the processor's time that chunks of 256 KiB take).
const CACHED_PIECE_BYTES: usize = 64 << 10;

/// A file that is read while it is sent.
pub(crate) struct FileBody(Reader);

impl FileBody {
    /// The first `bytes` bytes of a file.
    pub(crate) fn new(file: Arc<File>, bytes: u64) -> FileBody {
        FileBody(Reader::new(file, 0, bytes))
    }

    /// A part of the same file; as much of the range as this is to send.
    pub(crate) fn slice(&self, range: &Range<u64>) -> FileBody {
        let whole = &self.0;
        let (start, end) = (range.start.min(whole.left), range.end.min(whole.left));
        FileBody(Reader::new(
            Arc::clone(&whole.file),
            whole.at + start,
            end.saturating_sub(start),
        ))
    }

    /// The file that it is read from.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.0.file
    }

    /// Bytes still to come.
    pub(crate) fn left(&self) -> u64 {
        self.0.left
    }

    /// All of it at once, for small files; None if not all of it is in memory.
    pub(crate) fn gather(&self) -> Option<Bytes> {
        read_cached(&self.0.file, self.0.at, self.0.left).map(Bytes::from)
    }
}

impl Source for FileBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if self.0.has_ended() {
            return Poll::Ready(None);
        }
        let chunk = ready!(self.0.poll_read(context));
        let chunk = chunk.map_err(|error| ServerFault::io(Activity::FileBody, error).into());
        Poll::Ready(Some(chunk.map(Bytes::from)))
    }

    fn length(&self) -> Option<u64> {
        Some(self.0.left)
    }
}

/// Reads a stretch of a file from its start to its end.
pub(crate) struct Reader {
    file: Arc<File>,
    at: u64,
    left: u64,
    /// The chunk that a thread reads.
    ahead: Option<Ahead>,
}

impl Reader {
    /// `bytes` bytes from `at` on.
    pub(crate) fn new(file: Arc<File>, at: u64, bytes: u64) -> Reader {
        Reader {
            file,
            at,
            left: bytes,
            ahead: None,
        }
    }

    /// All has been read, or is of no use any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.left == 0
    }

    /// Reads no more.
    pub(crate) fn end(&mut self) {
        self.left = 0;
        self.ahead = None;
    }

    /// The next chunk, never empty. An error if the file has ended before; not to be asked after the end.
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        if self.ahead.is_none() {
            let wanted = self.piece_bytes(CACHED_PIECE_BYTES);
            if let Ok(Some(chunk)) = sluice_membuf::read_cached(&self.file, wanted, self.at) {
                self.advance(chunk.len());
                if chunk.len() < wanted {
                    self.read_ahead();
                }
                return Poll::Ready(Ok(chunk));
            }
            // Not in memory, or who knows; an error is told by the thread's reading.
            self.read_ahead();
        }
        let chunk = match &mut self.ahead {
            Some(ahead) => ready!(ahead.poll(context)),
            // Outside of a runtime there is no such thread.
            None => read_at(&self.file, self.at, self.piece_bytes(CHUNK_BYTES)),
        };
        let was_ahead = self.ahead.take().is_some();
        let chunk = chunk?;
        if chunk.is_empty() {
            return Poll::Ready(Err(shrank(self.left)));
        }
        self.advance(chunk.len());
        if was_ahead {
            self.read_ahead();
        }
        Poll::Ready(Ok(chunk))
    }

    fn piece_bytes(&self, most: usize) -> usize {
        usize::try_from(self.left).map_or(most, |left| left.min(most))
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.left -= bytes as u64;
    }

    /// Has the next chunk read by a thread.
    fn read_ahead(&mut self) {
        if self.has_ended() {
            return;
        }
        let (file, at, bytes) = (Arc::clone(&self.file), self.at, self.piece_bytes(CHUNK_BYTES));
        self.ahead = Handle::try_current().ok().map(|runtime| {
            Ahead(runtime.spawn_blocking(move || {
                // The kernel reads on by itself, in larger chunks; where it cannot, nothing is lost.
                let _ = fadvise(&file, 0, None, Advice::Sequential);
                read_at(&file, at, bytes)
            }))
        });
    }
}

/// A chunk that is being read by a thread. Dropped, it is not read any more if no thread has begun to.
struct Ahead(JoinHandle<io::Result<Vec<u8>>>);

impl Ahead {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        let read = ready!(Future::poll(Pin::new(&mut self.0), context));
        Poll::Ready(read.unwrap_or_else(|error| Err(io::Error::other(error))))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// `bytes` bytes of a file from `at` on, if all of them are in memory. Not if it has fewer by now.
pub(crate) fn read_cached(file: &File, at: u64, bytes: u64) -> Option<Vec<u8>> {
    let bytes = usize::try_from(bytes).ok()?;
    if bytes == 0 {
        return Some(Vec::new());
    }
    let read = sluice_membuf::read_cached(file, bytes, at).ok().flatten();
    read.filter(|chunk| chunk.len() == bytes)
}

/// `bytes` bytes of a file from an offset on, by a thread that may wait; an error if it has fewer by now.
pub(crate) fn read_part(file: &File, at: u64, bytes: u64) -> io::Result<Bytes> {
    let wanted = usize::try_from(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
    let mut part = read_at(file, at, wanted)?;
    // A read may return less than there is.
    while part.len() < wanted {
        let more = read_at(file, at + part.len() as u64, wanted - part.len())?;
        if more.is_empty() {
            return Err(shrank((wanted - part.len()) as u64));
        }
        part.extend_from_slice(&more);
    }
    Ok(part.into())
}

/// Up to `bytes` bytes of a file from `at` on, by a thread that may wait; fewer only at its end or where the system likes;
/// none at its end.
pub(crate) fn read_at(file: &File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    // The spare capacity is all that is read into, so it is exactly what is wanted.
    let mut chunk = Vec::with_capacity(bytes);
    if bytes > 0 {
        rustix::io::pread(file, spare_capacity(&mut chunk), at)?;
    }
    // with_capacity may give more than was asked for: what the file has gained meanwhile is not sent.
    chunk.truncate(bytes);
    Ok(chunk)
}

/// The file ended before the bytes that it had when it was opened.
pub(crate) fn shrank(missing: u64) -> io::Error {
    let text = format!("shrank while it was sent, {missing} bytes are missing");
    io::Error::new(ErrorKind::UnexpectedEof, text)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;

    use super::*;

    /// A file of so many bytes, none of which looks like its neighbours.
    fn file(bytes: u64) -> (File, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        io::Write::write_all(&mut file, &content).unwrap();
        (file, content)
    }

    /// A file of which the kernel cannot say what is in memory, and its content.
    fn unsure() -> (File, Vec<u8>) {
        let file = File::open("/proc/version").unwrap();
        let error = sluice_membuf::read_cached(&file, 1, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        (file, std::fs::read("/proc/version").unwrap())
    }

    async fn read_all(mut reader: Reader) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while !reader.has_ended() {
            all.extend(poll_fn(|context| reader.poll_read(context)).await?);
        }
        Ok(all)
    }

    fn in_runtime<T>(threads: usize, test: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.max_blocking_threads(threads).build().unwrap().block_on(test)
    }

    #[test]
    fn a_file_that_shrinks_is_a_fault_not_an_end() {
        let (file, content) = file(1_000_000);
        let file = Arc::new(file);
        in_runtime(1, async {
            for by_thread in [false, true] {
                file.set_len(1_000_000).unwrap();
                let mut reader = Reader::new(Arc::clone(&file), 0, 1_000_000);
                if by_thread {
                    reader.read_ahead();
                }
                let first = poll_fn(|context| reader.poll_read(context)).await.unwrap();
                assert!(by_thread || first == content[..CACHED_PIECE_BYTES]);
                file.set_len(0).unwrap();
                let error = read_all(reader).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            }
        });
    }

    #[test]
    fn a_part_is_read_from_its_place_and_never_beyond_the_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        std::fs::write(&path, "0123456789, grown meanwhile").unwrap();
        let body = FileBody::new(Arc::new(File::open(&path).unwrap()), 10);
        let gathered = |part: FileBody| read_part(&part.0.file, part.0.at, part.0.left).unwrap();
        assert_eq!(gathered(body.slice(&(2..5))), "234");
        assert_eq!(gathered(body.slice(&(2..8)).slice(&(1..3))), "34");
        assert_eq!(gathered(body.slice(&(8..20))), "89");
        assert_eq!(gathered(body.slice(&(20..30))), "");
        let part = in_runtime(1, read_all(body.slice(&(4..6)).0));
        assert_eq!(part.unwrap(), b"45");
        std::fs::write(&path, "01234").unwrap();
        assert!(body.slice(&(4..6)).gather().is_none());
        let error = read_part(&body.0.file, 4, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_in_memory_is_read_without_a_thread() {
        let (file, content) = file(1_000_000);
        if read_cached(&file, 0, 1_000_000).is_none() {
            // A file system that cannot say: it has the tests of threads.
            return;
        }
        // Without a runtime there is no thread.
        let mut reader = Reader::new(Arc::new(file), 0, 1_000_000);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut all = Vec::new();
        while !reader.has_ended() {
            let Poll::Ready(chunk) = reader.poll_read(&mut context) else {
                panic!("waits")
            };
            assert!(reader.ahead.is_none());
            all.extend(chunk.unwrap());
        }
        assert!(all == content);
    }

    #[test]
    fn a_disk_that_hangs_holds_no_worker() {
        let (file, content) = unsure();
        in_runtime(1, async {
            // The only thread stands still, as it would with a disk that does not answer.
            let (answer, hang) = mpsc::channel::<()>();
            let disk = tokio::task::spawn_blocking(move || hang.recv());
            let mut reader = Reader::new(Arc::new(file), 0, content.len() as u64);
            let first = poll_fn(|context| Poll::Ready(reader.poll_read(context))).await;
            assert!(first.is_pending(), "the worker has read it by itself");
            answer.send(()).unwrap();
            disk.await.unwrap().unwrap();
            assert!(read_all(reader).await.unwrap() == content);
        });
    }

    #[test]
    fn what_the_kernel_has_forgotten_comes_all_the_same() {
        let (file, content) = file(1_000_000);
        file.sync_all().unwrap();
        let file = Arc::new(file);
        // The whole, and a part of it: what is read while the rest is forgotten comes in chunks of two kinds.
        for forgotten in [0..1_000_000, 100_000..900_000] {
            let length = std::num::NonZeroU64::new(forgotten.end - forgotten.start);
            fadvise(&file, forgotten.start, length, Advice::DontNeed).unwrap();
            let reader = Reader::new(Arc::clone(&file), 0, 1_000_000);
            assert!(in_runtime(2, read_all(reader)).unwrap() == content);
        }
    }

    #[test]
    fn a_thread_is_one_piece_ahead_and_forgets_what_nobody_wants() {
        let (file, content) = file(1_000_000);
        let file = Arc::new(file);
        in_runtime(1, async {
            let mut reader = Reader::new(Arc::clone(&file), 0, 1_000_000);
            reader.read_ahead();
            let first = poll_fn(|context| reader.poll_read(context)).await.unwrap();
            assert!(first == content[..CHUNK_BYTES] && reader.ahead.is_some());
            assert!(read_all(reader).await.unwrap() == content[CHUNK_BYTES..]);
            // One that no thread has begun to read yet, when the client leaves.
            let (answer, hang) = mpsc::channel::<()>();
            let disk = tokio::task::spawn_blocking(move || hang.recv());
            let mut reader = Reader::new(Arc::clone(&file), 0, 1_000_000);
            reader.read_ahead();
            drop(reader);
            answer.send(()).unwrap();
            disk.await.unwrap().unwrap();
            // The thread takes its orders in turn: behind this one, nothing of the dropped is left.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(Arc::strong_count(&file), 1);
        });
    }
}
