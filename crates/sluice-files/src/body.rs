//! Reading a file while it is sent: exactly the bytes that it had when its length was announced, or an aborted body. No worker waits for a disk.
//!
//! The worker itself reads chunks that are in the page cache, which costs no more than any read. From the first chunk that is not, a blocking thread reads one
//! chunk ahead until the end of the file, because the rest is most likely not in memory either: it reads while the client receives the chunk before. The same
//! on file systems that cannot say what is in memory.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, fadvise};
use sluice_http::body::{CHUNK_BYTES, Source};
use sluice_http::fault::{Activity, Fault, ServerFault};
use tokio::runtime::Handle;

use crate::foreign;
use crate::foreign::served_file::ServedFile;
use crate::local_read::ReadAhead;
use crate::pace::Pace;

/// Files of at most this size are read at once, so that head and body leave in one write. Larger files, and those that are not
/// in the page cache, are read into the cache by a blocking thread, while the first request is served from the file.
pub(crate) const WHOLE_BYTES_MAX: u64 = 64 << 10;

const FILE: &str = "a file that is being sent";

/// Bytes that the worker reads at once from a file that it converts.
const CACHED_CHUNK_BYTES: usize = 64 << 10;

pub(crate) struct FileBody {
    reader: Reader,
    pace: Pace,
}

impl FileBody {
    fn of(reader: Reader) -> FileBody {
        FileBody { reader, pace: Pace::default() }
    }

    pub(crate) fn new(file: Arc<ServedFile>, bytes: u64) -> FileBody {
        FileBody::of(Reader::new(file, 0, bytes))
    }

    /// A range of this body, as far as it lies inside.
    pub(crate) fn slice(&self, range: &Range<u64>) -> FileBody {
        let whole = &self.reader;
        let (start, end) = (range.start.min(whole.left), range.end.min(whole.left));
        let bytes = end.saturating_sub(start);
        FileBody::of(Reader::new(Arc::clone(&whole.file), whole.at + start, bytes))
    }

    pub(crate) fn left(&self) -> u64 {
        self.reader.left
    }

    /// Whether reading it may wait for another process or machine.
    pub(crate) fn may_wait(&self) -> bool {
        self.reader.file.may_wait()
    }

    /// Reads all of it now; `None` if not all of it is in the page cache. For small files.
    pub(crate) fn read_now(&self) -> Option<Bytes> {
        read_cached(&self.reader.file, self.reader.at, self.reader.left).map(Bytes::from)
    }
}

impl Source for FileBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if self.reader.has_ended() {
            return Poll::Ready(None);
        }
        let may_be_large = self.reader.chunk_bytes_max > CHUNK_BYTES;
        self.reader.cached_bytes_max = self.pace.chunk_bytes(self.reader.left, may_be_large);
        let chunk = ready!(self.reader.poll_read(context));
        Poll::Ready(Some(
            chunk.map_err(|error| ServerFault::io(Activity::FileBody, error).into()),
        ))
    }

    fn limit_chunks(&mut self, bytes_max: usize) {
        self.reader.limit_chunks(bytes_max);
    }

    fn prefer_small_chunks(&mut self) {
        self.pace.prefer_small_chunks();
    }

    fn length(&self) -> Option<u64> {
        Some(self.reader.left)
    }
}

/// Reads a range of a file, chunk by chunk.
pub(crate) struct Reader {
    file: Arc<ServedFile>,
    at: u64,
    left: u64,
    chunk_bytes_max: usize,
    cached_bytes_max: usize,
    /// The memory of the last chunk that was in the page cache; used again when that chunk was sent.
    memory: BytesMut,
    /// Size of all of that memory.
    memory_bytes: usize,
    ahead: Option<ReadAhead>,
}

impl Reader {
    pub(crate) fn new(file: Arc<ServedFile>, at: u64, bytes: u64) -> Reader {
        Reader {
            file,
            at,
            left: bytes,
            chunk_bytes_max: CHUNK_BYTES,
            cached_bytes_max: CACHED_CHUNK_BYTES,
            memory: BytesMut::new(),
            memory_bytes: 0,
            ahead: None,
        }
    }

    pub(crate) fn limit_chunks(&mut self, bytes_max: usize) {
        self.chunk_bytes_max = bytes_max;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.left == 0
    }

    pub(crate) fn end(&mut self) {
        self.left = 0;
        self.ahead = None;
    }

    /// Reads the next chunk, which is never empty. Fails if the file has become shorter. Must not be called after the end.
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if self.ahead.is_none() {
            if let Some(chunk) = self.read_cached() {
                return Poll::Ready(Ok(chunk));
            }
            // Not in memory, unknown, or an error, which the thread will get too.
            self.read_ahead();
        }
        let chunk = match &mut self.ahead {
            Some(ahead) => ready!(ahead.poll(context)),
            // Outside a runtime there are no blocking threads.
            None => read_at(&self.file, self.at, self.chunk_bytes(CHUNK_BYTES)),
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
        Poll::Ready(Ok(chunk.into()))
    }

    fn read_cached(&mut self) -> Option<Bytes> {
        let wanted = self.chunk_bytes(self.cached_bytes_max);
        if self.file.share().is_some() {
            let chunk = read_cached(&self.file, self.at, wanted as u64)?;
            self.advance(wanted);
            return Some(chunk.into());
        }
        self.make_room(wanted);
        let read = sluice_membuf::append_cached(&**self.file, &mut self.memory, wanted, self.at);
        let read = read.ok().filter(|&read| read > 0)?;
        let chunk = self.memory.split().freeze();
        self.advance(read);
        if read < wanted {
            self.read_ahead();
        }
        Some(chunk)
    }

    /// Makes room for a chunk: in the memory of the last one if that was sent, so that no page has to be allocated and cleared.
    fn make_room(&mut self, wanted: usize) {
        let is_too_large = self.memory_bytes > self.cached_bytes_max.min(self.chunk_bytes_max);
        if is_too_large || !self.memory.try_reclaim(wanted) {
            self.memory = BytesMut::with_capacity(wanted);
            self.memory_bytes = wanted;
        }
    }

    fn chunk_bytes(&self, most: usize) -> usize {
        let most = most.min(self.chunk_bytes_max);
        usize::try_from(self.left).map_or(most, |left| left.min(most))
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.left -= bytes as u64;
    }

    fn read_ahead(&mut self) {
        // Its chunks have memory of their own.
        self.memory = BytesMut::new();
        if self.has_ended() {
            return;
        }
        let (file, at, bytes) = (Arc::clone(&self.file), self.at, self.chunk_bytes(CHUNK_BYTES));
        let read = {
            let file = Arc::clone(&file);
            move || {
                // Makes the kernel read ahead in larger chunks; a failure does no harm.
                let _ = fadvise(&**file, 0, None, Advice::Sequential);
                read_at(&file, at, bytes)
            }
        };
        self.ahead = Handle::try_current().ok().map(|runtime| match file.share() {
            None => ReadAhead::begin(&runtime, &file, read),
            Some(share) => ReadAhead::elsewhere(foreign::answer_to(FILE, foreign::begin(share, read))),
        });
    }
}

/// Reads `bytes` bytes of a file from `at`; `None` if not all are in the page cache, or the file is shorter by now.
pub(crate) fn read_cached(file: &ServedFile, at: u64, bytes: u64) -> Option<Vec<u8>> {
    let bytes = usize::try_from(bytes).ok()?;
    if bytes == 0 {
        return Some(Vec::new());
    }
    if file.share().is_some() {
        let at = usize::try_from(at).ok()?;
        return Some(file.content()?.get(at..at.checked_add(bytes)?)?.to_vec());
    }
    let file: &File = file;
    let read = sluice_membuf::read_cached(file, bytes, at).ok().flatten();
    read.filter(|chunk| chunk.len() == bytes)
}

/// Reads `bytes` bytes of a file from `at`, in a blocking thread. Fails if the file is shorter by now.
pub(crate) fn read_part(file: &File, at: u64, bytes: u64) -> io::Result<Bytes> {
    let wanted = usize::try_from(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
    let mut part = read_at(file, at, wanted)?;
    // pread(2) may return fewer bytes than the file has.
    while part.len() < wanted {
        let more = read_at(file, at + part.len() as u64, wanted - part.len())?;
        if more.is_empty() {
            return Err(shrank((wanted - part.len()) as u64));
        }
        part.extend_from_slice(&more);
    }
    Ok(part.into())
}

/// Reads up to `bytes` bytes of a file from `at`, in a blocking thread: one pread(2), so there may be fewer; none only at the end of the file.
pub(crate) fn read_at(file: &File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    // pread fills the spare capacity, so the capacity is the size to be read.
    let mut chunk = Vec::with_capacity(bytes);
    if bytes > 0 {
        rustix::io::pread(file, spare_capacity(&mut chunk), at)?;
    }
    // The capacity may be larger than requested: bytes that were appended to the file meanwhile are not sent.
    chunk.truncate(bytes);
    Ok(chunk)
}

/// The error that a file has become shorter since it was opened, by `missing` bytes.
pub(crate) fn shrank(missing: u64) -> io::Error {
    let text = format!("shrank while it was sent, {missing} bytes are missing");
    io::Error::new(ErrorKind::UnexpectedEof, text)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;

    use super::*;
    use crate::pace::LARGE_CHUNK_BYTES;

    /// A file of this size in which neighbouring bytes differ, and its content.
    fn file(bytes: u64) -> (ServedFile, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        io::Write::write_all(&mut file, &content).unwrap();
        (ServedFile::local(file), content)
    }

    /// A file for which the kernel cannot say what is in memory, and its content.
    fn unknown_to_page_cache() -> (ServedFile, Vec<u8>) {
        let file = File::open("/proc/version").unwrap();
        let error = sluice_membuf::read_cached(&file, 1, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        (ServedFile::local(file), std::fs::read("/proc/version").unwrap())
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
    fn file_that_shrinks_is_an_error_and_not_an_end() {
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
                assert!(by_thread || first == content[..CACHED_CHUNK_BYTES]);
                file.set_len(0).unwrap();
                let error = read_all(reader).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            }
        });
    }

    #[test]
    fn slice_is_read_from_its_offset_and_never_beyond_the_body() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        std::fs::write(&path, "0123456789, grown meanwhile").unwrap();
        let body = FileBody::new(Arc::new(ServedFile::local(File::open(&path).unwrap())), 10);
        let read = |part: FileBody| read_part(&part.reader.file, part.reader.at, part.reader.left).unwrap();
        assert_eq!(read(body.slice(&(2..5))), "234");
        assert_eq!(read(body.slice(&(2..8)).slice(&(1..3))), "34");
        assert_eq!(read(body.slice(&(8..20))), "89");
        assert_eq!(read(body.slice(&(20..30))), "");
        let part = in_runtime(1, read_all(body.slice(&(4..6)).reader));
        assert_eq!(part.unwrap(), b"45");
        std::fs::write(&path, "01234").unwrap();
        assert!(body.slice(&(4..6)).read_now().is_none());
        let error = read_part(&body.reader.file, 4, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn bytes_in_memory_are_read_without_a_thread() {
        let (file, content) = file(1_000_000);
        if read_cached(&file, 0, 1_000_000).is_none() {
            // A file system that cannot say what is in memory; other tests cover it.
            return;
        }
        // There is no runtime, so no blocking thread can help.
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

    /// The next chunk of a body whose file is in the page cache.
    fn next_chunk(body: &mut FileBody) -> Bytes {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match body.poll_chunk(&mut context) {
            Poll::Ready(Some(Ok(chunk))) => chunk,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn chunks_are_large_for_a_fast_client_and_share_their_memory_when_they_are_sent() {
        let (file, content) = file(12_000_000);
        if read_cached(&file, 0, 12_000_000).is_none() {
            return;
        }
        let mut body = FileBody::new(Arc::new(file), 12_000_000);
        body.limit_chunks(LARGE_CHUNK_BYTES);
        let mut all = next_chunk(&mut body).to_vec();
        assert_eq!(all.len(), CHUNK_BYTES, "nothing is known of the client yet");
        let first = next_chunk(&mut body);
        assert_eq!(first.len(), LARGE_CHUNK_BYTES);
        all.extend_from_slice(&first);
        let memory = first.as_ptr();
        let second = next_chunk(&mut body);
        assert_ne!(second.as_ptr(), memory, "the first one is not sent");
        all.extend_from_slice(&second);
        let memory = second.as_ptr();
        drop((first, second));
        let third = next_chunk(&mut body);
        assert_eq!((third.as_ptr(), third.len()), (memory, LARGE_CHUNK_BYTES));
        all.extend_from_slice(&third);
        drop(third);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let slow = next_chunk(&mut body);
        assert_eq!(slow.len(), CHUNK_BYTES, "the client was slow");
        assert_eq!(body.reader.memory_bytes, CHUNK_BYTES, "the larger memory is free");
        all.extend_from_slice(&slow);
        body.limit_chunks(1000);
        let scarce = next_chunk(&mut body);
        assert_eq!((scarce.len(), body.reader.memory_bytes), (1000, 1000));
        all.extend_from_slice(&scarce);
        assert!(all == content[..all.len()]);
    }

    #[test]
    fn disk_that_hangs_does_not_block_the_worker() {
        let (file, content) = unknown_to_page_cache();
        in_runtime(1, async {
            // The only blocking thread is busy, as with a disk that does not respond.
            let (answer, hang) = mpsc::channel::<()>();
            let disk = tokio::task::spawn_blocking(move || hang.recv());
            let mut reader = Reader::new(Arc::new(file), 0, content.len() as u64);
            let first = poll_fn(|context| Poll::Ready(reader.poll_read(context))).await;
            assert!(first.is_pending(), "the worker read it itself");
            answer.send(()).unwrap();
            disk.await.unwrap().unwrap();
            assert!(read_all(reader).await.unwrap() == content);
        });
    }

    #[test]
    fn bytes_not_in_the_page_cache_are_read_from_disk() {
        let (file, content) = file(1_000_000);
        file.sync_all().unwrap();
        let file = Arc::new(file);
        // All of the file, and a part of it, so that chunks of both kinds are read.
        for evicted in [0..1_000_000, 100_000..900_000] {
            let length = std::num::NonZeroU64::new(evicted.end - evicted.start);
            fadvise(&**file, evicted.start, length, Advice::DontNeed).unwrap();
            let reader = Reader::new(Arc::clone(&file), 0, 1_000_000);
            assert!(in_runtime(2, read_all(reader)).unwrap() == content);
        }
    }

    #[test]
    fn thread_reads_one_chunk_ahead_and_stops_when_the_body_is_dropped() {
        let (file, content) = file(1_000_000);
        let file = Arc::new(file);
        in_runtime(1, async {
            let mut reader = Reader::new(Arc::clone(&file), 0, 1_000_000);
            reader.read_ahead();
            let first = poll_fn(|context| reader.poll_read(context)).await.unwrap();
            assert!(first == content[..CHUNK_BYTES] && reader.ahead.is_some());
            assert!(read_all(reader).await.unwrap() == content[CHUNK_BYTES..]);
            // A chunk that no thread has started to read when the client disconnects.
            let (answer, hang) = mpsc::channel::<()>();
            let disk = tokio::task::spawn_blocking(move || hang.recv());
            let mut reader = Reader::new(Arc::clone(&file), 0, 1_000_000);
            reader.read_ahead();
            drop(reader);
            answer.send(()).unwrap();
            disk.await.unwrap().unwrap();
            // Jobs run in order: after this one, the dropped job is gone.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(Arc::strong_count(&file), 1);
        });
    }
}
