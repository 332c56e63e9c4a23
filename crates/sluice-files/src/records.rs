//! Files of records: sent as lines, which are made while they are sent or, once made, come from the cache.
//!
//! Here: what is done with a file that the directory's settings call records ([`Records`], and the part of [`Files`] that is
//! asked then), and its body on its way out ([`RecordBody`]). Not here: what records are, and how a file is written anew
//! (`record_format`). A file beside which its original lies was written anew, and is sent like any other.

pub mod decoder;
pub mod stream_lf;

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use sluice_http::body::{CHUNK_BYTES, Source};
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_settings::record_format::RecordFormat;
use sluice_settings::{Convert, RecordSettings};
use tokio::runtime::Handle;

use crate::body::{Reader, read_at, read_cached, shrank};
use crate::cache::{Cache, Cached, has_reliable_mtime};
use crate::directory::Directory;
use crate::file::{Files, Found, WHOLE_BYTES_MAX};
use crate::records::decoder::Decoder;
use crate::records::stream_lf::{ORIGINAL_SUFFIX, has_original, rewrite};

/// Names of files of which is remembered that they were to be written anew, or kept as lines. Beyond it all are forgotten, and
/// may be tried once more: only the failures among them cost something, a line in the log.
const TRIED_MAX: usize = 10_000;

/// How the files of a directory are stored, and what becomes of the lines that they are sent as.
pub struct Records {
    settings: RecordSettings,
    /// Files that were to be written anew, as they were then: none is tried twice.
    rewritten: Tried,
    /// Files whose lines are too large for the cache.
    too_large: Arc<Tried>,
}

/// Files with which something was tried, as they were then.
#[derive(Default)]
struct Tried(Mutex<HashMap<Box<str>, Stamp>>);

/// Size and time of change.
type Stamp = (u64, i64, i64);

impl Tried {
    /// Whether it was tried with this very version of a file.
    fn has(&self, name: &str, metadata: &Metadata) -> bool {
        self.lock().get(name) == Some(&stamp(metadata))
    }

    /// Notes that it is tried now; false if it was before.
    fn note(&self, name: &str, metadata: &Metadata) -> bool {
        let mut tried = self.lock();
        if tried.len() >= TRIED_MAX {
            tried.clear();
        }
        let stamp = stamp(metadata);
        tried.insert(name.into(), stamp) != Some(stamp)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Stamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

impl Records {
    pub fn new(settings: RecordSettings) -> Records {
        Records {
            settings,
            rewritten: Tried::default(),
            too_large: Arc::default(),
        }
    }

    /// Has a file written anew by a thread that may wait for a disk, if the settings say so and it was not tried before. The
    /// response goes its own way, whatever comes of it.
    fn rewrite_behind(&self, directory: &Directory, name: &str, metadata: &Metadata) {
        let is_wanted = self.settings.convert == Convert::Rewrite && !name.ends_with(ORIGINAL_SUFFIX);
        // One that is not settled may be on its way here still.
        if !is_wanted || !has_reliable_mtime(metadata) || !self.rewritten.note(name, metadata) {
            return;
        }
        // Outside of a runtime there is no such thread.
        let Ok(runtime) = Handle::try_current() else { return };
        let (place, last) = name.rsplit_once('/').unwrap_or(("", name));
        // Held open from here on: what is renamed meanwhile is not written to.
        let place = match directory.open_without_links(place) {
            Ok(place) => place,
            Err(error) => return tracing::warn!("file {name:?}: not written anew: its directory: {error}"),
        };
        let (name, last, format) = (name.to_owned(), last.to_owned(), self.settings.format);
        runtime.spawn_blocking(move || match rewrite(&place, last.as_ref(), format) {
            Ok(_) => {
                tracing::info!("file {name:?}: written anew as stream-LF, original kept as {ORIGINAL_SUFFIX}");
            }
            Err(error) => tracing::warn!("file {name:?}: not written anew: {error}"),
        });
    }
}

impl Files<'_> {
    /// Whether a file is one of records: its directory's files are, and it was not written anew.
    pub(crate) fn has_records(&self, file: &File, metadata: &Metadata) -> bool {
        self.directory.records().is_some() && !has_original(file, metadata)
    }

    /// A file of records as lines: a small one at once, a larger one while it is sent.
    pub(crate) fn open_records(&self, name: &str, file: File, metadata: &Metadata) -> Result<Found, Fault> {
        let Some(records) = self.directory.records() else {
            return Err(Fault::unexpected("a file that is not one of records is opened as one"));
        };
        records.rewrite_behind(self.directory, name, metadata);
        let RecordSettings { format, convert } = records.settings;
        let mut representation = self.describe(name, metadata).in_form(format);
        // Lines that are not kept are not compressed.
        representation.has_forms &= convert != Convert::Off;
        let cache = self
            .cache()
            .filter(|cache| convert != Convert::Off && cache.takes(metadata));
        if metadata.len() <= WHOLE_BYTES_MAX
            && let Some(content) = read_cached(&file, 0, metadata.len())
        {
            let lines =
                lines_of(&content, format).map_err(|error| ServerFault::io(Activity::File(name.into()), error))?;
            let content = match cache {
                Some(cache) => cache.hold(lines),
                None => Bytes::from(lines).into(),
            };
            let cached = Arc::new(Cached::new(representation, content, metadata));
            if let Some(cache) = cache
                && file.metadata().is_ok_and(|now| cached.is_of(&now))
            {
                cache.keep(self.directory, name, &cached);
            }
            return Ok(Found::Cached(cached));
        }
        let file = Arc::new(file);
        if let Some(cache) = cache
            && !records.too_large.has(name, metadata)
        {
            let (too_large, own_name, seen) = (Arc::clone(&records.too_large), name.to_owned(), metadata.clone());
            let read = move |cache: &Cache, file: &File, bytes| {
                let lines = read_lines(file, bytes, format, cache.file_bytes_max());
                if lines
                    .as_ref()
                    .is_err_and(|error| error.kind() == ErrorKind::FileTooLarge)
                {
                    too_large.note(&own_name, &seen);
                }
                lines.map(|lines| cache.hold(lines))
            };
            cache.fill_by(
                (self.directory, name),
                Arc::clone(&file),
                representation.clone(),
                metadata,
                read,
            );
        }
        let body = RecordBody::new(name, file, metadata.len(), format);
        Ok(Found::Records(representation, body))
    }
}

/// The lines of a file's content; a malformed one is `InvalidData`.
fn lines_of(content: &[u8], format: RecordFormat) -> io::Result<Vec<u8>> {
    let (mut decoder, mut lines) = (Decoder::new(format), Vec::new());
    decoder.push(content, &mut lines)?;
    decoder.finish()?;
    Ok(lines)
}

/// The lines of the first `bytes` bytes of a file for the cache, read by a thread that may wait; malformed as above. They must
/// keep the cache's bound for a file as well (else `FileTooLarge`): those of fixed records are longer than the file.
fn read_lines(file: &File, bytes: u64, format: RecordFormat, most: u64) -> io::Result<Vec<u8>> {
    let (mut decoder, mut lines) = (Decoder::new(format), Vec::new());
    let mut at = 0;
    while at < bytes {
        let chunk = read_at(file, at, CHUNK_BYTES)?;
        let wanted = usize::try_from(bytes - at).map_or(chunk.len(), |left| left.min(chunk.len()));
        if wanted == 0 {
            return Err(shrank(bytes - at));
        }
        decoder.push(&chunk[..wanted], &mut lines)?;
        at += wanted as u64;
        if lines.len() as u64 > most {
            let what = "its lines are too large for the cache";
            return Err(io::Error::new(ErrorKind::FileTooLarge, what));
        }
    }
    decoder.finish()?;
    Ok(lines)
}

/// A file of records that is read while it is sent. Its length is not known before its end.
pub(crate) struct RecordBody {
    name: Box<str>,
    reader: Reader,
    decoder: Decoder,
    /// What ends it, once the lines before it are on their way.
    fault: Option<Fault>,
    /// The connection was left a turn to send these lines: with the fault it drops what it still holds.
    had_turn: bool,
}

impl RecordBody {
    fn new(name: &str, file: Arc<File>, bytes: u64, format: RecordFormat) -> RecordBody {
        RecordBody {
            name: name.into(),
            reader: Reader::new(file, 0, bytes),
            decoder: Decoder::new(format),
            fault: None,
            had_turn: false,
        }
    }

    /// Adds the lines of the next chunk, which may be none. With an error, those before the fault were added.
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
        if self.fault.is_some() && !self.had_turn {
            self.had_turn = true;
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
            // Nothing is read behind it.
            self.reader.end();
            let fault = Fault::from(ServerFault::io(Activity::File(self.name.clone()), error));
            if lines.is_empty() {
                return Poll::Ready(Some(Err(fault)));
            }
            self.fault = Some(fault);
        }
        if lines.is_empty() && !self.reader.has_ended() {
            // A stretch of unused blocks: other connections have their turn before the next chunk.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready((!lines.is_empty()).then(|| Ok(lines.into())))
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

    fn body(content: &[u8]) -> RecordBody {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, content).unwrap();
        RecordBody::new("a", Arc::new(file), content.len() as u64, VARIABLE)
    }

    /// Chunks and the fault at their end, and how often there was none yet.
    fn drain(mut body: RecordBody) -> (Vec<u8>, Option<String>, usize) {
        let (mut all, mut pauses) = (Vec::new(), 0);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match body.poll_chunk(&mut context) {
                Poll::Pending => pauses += 1,
                Poll::Ready(Some(Ok(chunk))) => {
                    assert!(!chunk.is_empty());
                    all.extend_from_slice(&chunk);
                }
                Poll::Ready(Some(Err(fault))) => return (all, Some(fault.to_string()), pauses),
                Poll::Ready(None) => return (all, None, pauses),
            }
        }
    }

    #[test]
    fn lines_come_in_large_pieces_until_a_fault_which_comes_last() {
        let mut content = b"\x04\0good".repeat(100_000);
        let expected = b"good\n".repeat(100_000);
        assert_eq!(drain(body(&content)), (expected.clone(), None, 0));
        content.extend(b"\0\x90");
        let fault = "file \"a\": byte 600000: a record of 36864 bytes, but none is longer than 32767";
        assert_eq!(drain(body(&content)), (expected, Some(fault.into()), 1));
    }

    #[test]
    fn unused_blocks_give_no_piece_and_leave_others_their_turn() {
        let mut content = b"\x02\0ab\xff\xff".to_vec();
        content.resize(512, 0);
        content.extend([0xff_u8; 512].repeat(2000));
        let expected = || b"ab\n".to_vec();
        let (lines, fault, pauses) = drain(body(&content));
        assert_eq!((lines, fault), (expected(), None));
        // One a chunk: of 64 KiB where the kernel has the file in memory, and larger where not.
        assert!((2..=20).contains(&pauses), "{pauses} for a megabyte");
        content.extend(b"\x02\0cd");
        assert_eq!(drain(body(&content)).0, b"ab\ncd\n");
        assert_eq!(drain(body(b"")), (Vec::new(), None, 0));
    }

    #[test]
    fn a_file_that_shrinks_is_a_fault() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &b"\x04\0good".repeat(100_000)).unwrap();
        file.set_len(300_000).unwrap();
        let (lines, fault, _) = drain(RecordBody::new("a", Arc::new(file), 600_000, VARIABLE));
        assert_eq!(lines, b"good\n".repeat(50_000));
        assert!(fault.unwrap().contains("shrank"));
    }

    #[test]
    fn a_file_is_tried_once_until_it_changes() {
        let tried = Tried::default();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        assert!(!tried.has("a", &metadata));
        assert!(tried.note("a", &metadata) && tried.note("b", &metadata));
        assert!(tried.has("a", &metadata) && !tried.note("a", &metadata));
        io::Write::write_all(&mut file, b"more").unwrap();
        let changed = file.as_file().metadata().unwrap();
        assert!(!tried.has("a", &changed) && tried.note("a", &changed));
        for number in 0..2 * TRIED_MAX {
            tried.note(&number.to_string(), &metadata);
        }
        assert!(tried.lock().len() <= TRIED_MAX);
    }
}
