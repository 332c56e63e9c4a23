//! VMS record files: sent as lines, which are made while they are sent or come from the cache.
//!
//! Here: how the record files of a route are opened ([`Records`]). Not here: the conversion to lines (`decoder`), a body that
//! is converted while it is sent (`body`), and rewriting a file (`stream_lf`). A file beside which its original lies was
//! rewritten, and is sent as any other file.

mod attempts;
pub(crate) mod body;
pub mod decoder;
pub mod stream_lf;

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::sync::Arc;

use bytes::Bytes;
use sluice_http::body::CHUNK_BYTES;
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_settings::record_format::RecordFormat;
use sluice_settings::{Convert, RecordSettings};
use tokio::runtime::Handle;

use crate::body::{WHOLE_BYTES_MAX, read_at, read_cached, shrank};
use crate::cache::entry::{Cached, Key};
use crate::cache::fill::Fill;
use crate::cache::{Cache, has_reliable_mtime};
use crate::found::{Found, Opened};
use crate::records::attempts::Attempts;
use crate::records::body::RecordBody;
use crate::records::decoder::Decoder;
use crate::records::stream_lf::{ORIGINAL_SUFFIX, has_original, rewrite};

/// The record files of a route: their format, whether their lines are cached, and whether they are rewritten.
pub struct Records {
    settings: RecordSettings,
    /// Files that the server tried to rewrite.
    rewritten: Attempts,
}

impl Records {
    /// Record files with these settings.
    pub fn new(settings: RecordSettings) -> Records {
        Records {
            settings,
            rewritten: Attempts::default(),
        }
    }

    /// Whether an open file still consists of records, because it was not rewritten.
    pub(crate) fn contain(file: &File, metadata: &Metadata) -> bool {
        !has_original(file, metadata)
    }

    /// The lines of a record file: of a small one at once, of a larger one while they are sent.
    ///
    /// # Errors
    /// A small file is malformed; the server's fault.
    pub(crate) fn open(&self, mut opened: Opened<'_>, cache: Option<&Arc<Cache>>) -> Result<Found, Fault> {
        self.rewrite_in_background(&opened);
        let RecordSettings { format, convert } = self.settings;
        opened.representation = opened.representation.with_tag_suffix(format);
        // Lines that are not kept are not compressed.
        opened.representation.has_variants &= convert != Convert::Off;
        let cache = cache.filter(|cache| convert != Convert::Off && cache.admits(&opened.metadata));
        let bytes = opened.metadata.len();
        if bytes <= WHOLE_BYTES_MAX
            && let Some(content) = read_cached(&opened.file, 0, bytes)
        {
            return self.convert_now(opened, &content, cache);
        }
        opened
            .events
            .note(|| format!("records of format {format} are converted to lines while they are sent"));
        let file = Arc::new(opened.file);
        if let Some(cache) = cache {
            let key = Key::new(opened.directory, opened.name);
            let fill = Fill::new(key, &file, &opened.representation, &opened.metadata);
            self.fill_with_lines(cache, fill);
        }
        let body = RecordBody::new(opened.name, file, bytes, format);
        Ok(Found::Records(Box::new(opened.representation), Box::new(body)))
    }

    /// Converts the content of a small file, and keeps the lines if there is a cache.
    fn convert_now(&self, opened: Opened<'_>, content: &[u8], cache: Option<&Arc<Cache>>) -> Result<Found, Fault> {
        let format = self.settings.format;
        let lines = lines_of(content, format).map_err(|error| {
            opened.events.note(|| format!("records of format {format}: {error}"));
            ServerFault::io(Activity::File(opened.name.into()), error)
        })?;
        opened.events.note(|| {
            let (bytes, lines) = (content.len(), lines.len());
            let kept = cache.map_or("", |_| ", kept in the cache");
            format!("{bytes} bytes of records of format {format} converted to {lines} bytes of lines{kept}")
        });
        let content = match cache {
            Some(cache) => cache.content_of(lines),
            None => Bytes::from(lines).into(),
        };
        let cached = Arc::new(Cached::new(opened.representation, content, &opened.metadata));
        if let Some(cache) = cache
            && opened.file.metadata().is_ok_and(|now| cached.is_current(&now))
        {
            cache.insert(Key::new(opened.directory, opened.name), &cached);
        }
        Ok(Found::Cached(cached))
    }

    /// Reads the lines of a larger file into the cache in the background.
    fn fill_with_lines(&self, cache: &Arc<Cache>, fill: Fill) {
        let format = self.settings.format;
        cache.fill(fill, move |cache, file, bytes| {
            let lines = read_lines(file, bytes, format, cache.file_bytes_max());
            lines.map(|lines| cache.content_of(lines))
        });
    }

    /// Makes a blocking thread rewrite a file, if the settings say so and it was not tried before. The response does not
    /// depend on the result.
    fn rewrite_in_background(&self, opened: &Opened<'_>) {
        let (name, metadata) = (opened.name, &opened.metadata);
        let is_wanted = self.settings.convert == Convert::Rewrite && !name.ends_with(ORIGINAL_SUFFIX);
        // A file that changed just now may still be being written.
        if !is_wanted || !has_reliable_mtime(metadata) || !self.rewritten.note(name, metadata) {
            return;
        }
        // Outside a runtime there are no blocking threads.
        let Ok(runtime) = Handle::try_current() else { return };
        let (parent, last) = name.rsplit_once('/').unwrap_or(("", name));
        // Opened now, so that a directory that replaces it meanwhile is not written to.
        let parent = match opened.directory.open_without_links(parent) {
            Ok(parent) => parent,
            Err(error) => return tracing::warn!("file {name:?}: not rewritten: its directory: {error}"),
        };
        let (name, last, format) = (name.to_owned(), last.to_owned(), self.settings.format);
        runtime.spawn_blocking(move || match rewrite(&parent, last.as_ref(), format) {
            Ok(_) => {
                tracing::info!("file {name:?}: rewritten as stream-LF, original kept as {ORIGINAL_SUFFIX}");
            }
            Err(error) => tracing::warn!("file {name:?}: not rewritten: {error}"),
        });
    }
}

/// The lines of a file's content; `InvalidData` if it is malformed.
fn lines_of(content: &[u8], format: RecordFormat) -> io::Result<Vec<u8>> {
    let (mut decoder, mut lines) = (Decoder::new(format), Vec::new());
    decoder.push(content, &mut lines)?;
    decoder.finish()?;
    Ok(lines)
}

/// Reads the lines of the first `bytes` bytes of a file, in a blocking thread. Fails with `InvalidData` if it is malformed, and
/// with `FileTooLarge` if there are more than `most` bytes of lines: those of fixed records are longer than the file.
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
