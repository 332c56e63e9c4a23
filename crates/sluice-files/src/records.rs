//! VMS record files: sent as lines, which are made while they are sent or come from the cache.
//!
//! A file beside which its original lies was rewritten (`stream_lf`), and is sent as any other file.

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
use sluice_watch::Tracer;
use tokio::runtime::Handle;

use crate::body::{WHOLE_BYTES_MAX, read_at, read_cached, shrank};
use crate::cache::entry::{Cached, FileVersion, Key};
use crate::cache::fill::Fill;
use crate::cache::{FileCache, has_reliable_mtime};
use crate::file_events::note;
use crate::foreign::has_left;
use crate::foreign::served_file::ServedFile;
use crate::found::{Found, Opened};
use crate::records::attempts::Attempts;
use crate::records::body::RecordBody;
use crate::records::decoder::Decoder;
use crate::records::stream_lf::{ORIGINAL_SUFFIX, rewrite};
use crate::representation::Representation;

/// The record files of a route: their format, whether their lines are cached, and whether they are rewritten.
pub struct Records {
    settings: RecordSettings,
    rewritten: Arc<Attempts>,
}

/// A record file that is sent as lines.
pub(crate) struct RecordFile {
    pub representation: Representation,
    name: Box<str>,
    file: Arc<ServedFile>,
    pub version: FileVersion,
    format: RecordFormat,
    /// How its lines get into the cache, if they are to be kept there.
    fill: Option<Box<Fill>>,
    /// How it is rewritten, if that is wanted and was not tried before.
    rewrite: Option<Rewrite>,
}

struct Rewrite {
    attempts: Arc<Attempts>,
    metadata: Metadata,
    /// The directory of the file, opened with it, so that one that replaces it meanwhile is not written to.
    parent: ServedFile,
    /// The path below the directory of its route.
    name: String,
    format: RecordFormat,
}

impl Records {
    /// Record files with these settings.
    pub fn new(settings: RecordSettings) -> Records {
        Records { settings, rewritten: Arc::default() }
    }

    /// A record file that was opened for a request; none of it is read yet.
    pub(crate) fn open(&self, mut opened: Opened<'_>, cache: Option<&Arc<FileCache>>) -> RecordFile {
        let rewrite = self.rewrite(&opened);
        let RecordSettings { format, convert } = self.settings;
        opened.representation = opened.representation.with_tag_suffix(format);
        // Lines that are not kept are not compressed.
        opened.representation.has_variants &= convert != Convert::Off;
        let cache = cache.filter(|cache| convert != Convert::Off && cache.admits(&opened.metadata));
        let file = Arc::new(opened.file);
        let key = || Key::new(opened.directory, opened.name);
        RecordFile {
            fill: cache.map(|cache| {
                let fill = Fill::new(cache, key(), &file, &opened.representation, &opened.metadata);
                Box::new(fill)
            }),
            representation: opened.representation,
            name: opened.name.into(),
            file,
            version: FileVersion::of(&opened.metadata),
            format,
            rewrite,
        }
    }

    /// How a file is rewritten, if the settings say so and it was not tried before. The response does not depend on the result.
    fn rewrite(&self, opened: &Opened<'_>) -> Option<Rewrite> {
        let (name, metadata) = (opened.name, &opened.metadata);
        let is_wanted = self.settings.convert == Convert::Rewrite && !name.ends_with(ORIGINAL_SUFFIX);
        // A file that changed just now may still be being written. Outside a runtime there are no blocking threads.
        if !is_wanted
            || !has_reliable_mtime(metadata)
            || self.rewritten.has(name, metadata)
            || Handle::try_current().is_err()
            // No thread that may be lost writes.
            || opened.file.share().is_some()
        {
            return None;
        }
        let (parent, _) = split_name(name);
        match opened.directory.open_without_links(parent) {
            Ok(parent) if parent.share().is_some() => None,
            Ok(parent) => Some(Rewrite {
                attempts: Arc::clone(&self.rewritten),
                metadata: metadata.clone(),
                parent,
                name: name.to_owned(),
                format: self.settings.format,
            }),
            Err(_) if has_left() => None,
            Err(error) => {
                if self.rewritten.note(name, metadata) {
                    tracing::warn!("file {name:?}: not rewritten: its directory: {error}");
                }
                None
            }
        }
    }
}

fn split_name(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

impl RecordFile {
    /// Whether its lines will be in the cache as soon as it is read.
    pub(crate) fn is_kept_at_once(&self) -> bool {
        self.fill.is_some() && self.version.bytes <= WHOLE_BYTES_MAX
    }

    /// Whether reading it may wait for another process or machine.
    pub(crate) fn may_wait(&self) -> bool {
        self.file.may_wait()
    }

    /// Reads it: a small file's lines at once; a larger one's while they are sent, and in the background for the cache. Has it rewritten, if that is wanted.
    ///
    /// # Errors
    /// A small file is malformed; the server's fault.
    pub(crate) fn read(mut self: Box<Self>, tracer: &Tracer) -> Result<Found, Fault> {
        if let Some(rewrite) = self.rewrite.take() {
            rewrite.begin();
        }
        let bytes = self.version.bytes;
        if bytes <= WHOLE_BYTES_MAX
            && let Some(content) = read_cached(&self.file, 0, bytes)
        {
            return self.convert_now(&content, tracer).map(Found::Cached);
        }
        let format = self.format;
        note(tracer, || {
            format!("records of format {format} are converted to lines while they are sent")
        });
        if let Some(fill) = self.fill.take() {
            fill.read_in_background(move |cache, file, bytes| {
                let lines = read_lines(file, bytes, format, cache.file_bytes_max());
                lines.map(|lines| cache.content_of(lines))
            });
        }
        Ok(Found::Records(self))
    }

    /// Converts the content of a small file, and keeps the lines if there is a cache.
    fn convert_now(self, content: &[u8], tracer: &Tracer) -> Result<Arc<Cached>, Fault> {
        let format = self.format;
        let lines = lines_of(content, format).map_err(|error| {
            note(tracer, || format!("records of format {format}: {error}"));
            ServerFault::io(Activity::File(self.name), error)
        })?;
        note(tracer, || {
            let (bytes, lines) = (content.len(), lines.len());
            let kept = self.fill.as_ref().map_or("", |_| ", kept in the cache");
            format!("{bytes} bytes of records of format {format} converted to {lines} bytes of lines{kept}")
        });
        Ok(match self.fill {
            Some(fill) => fill.keep(lines),
            None => {
                let content = Bytes::from(lines).into();
                Arc::new(Cached::new(self.representation, content, self.version))
            }
        })
    }

    /// The lines, made while they are sent.
    pub(crate) fn into_lines(self) -> (Representation, RecordBody) {
        let bytes = self.version.bytes;
        let lines = RecordBody::new(&self.name, self.file, bytes, self.format);
        (self.representation, lines)
    }
}

impl Rewrite {
    /// Makes a blocking thread rewrite the file, unless another request has done so meanwhile.
    fn begin(self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.attempts.note(&self.name, &self.metadata) {
            return;
        }
        runtime.spawn_blocking(move || {
            let name = &self.name;
            match rewrite(&self.parent, split_name(name).1.as_ref(), self.format) {
                Ok(_) => tracing::info!("file {name:?}: rewritten as stream-LF, original kept as {ORIGINAL_SUFFIX}"),
                Err(error) => tracing::warn!("file {name:?}: not rewritten: {error}"),
            }
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
