//! The result of looking up a name: a file in memory, an open file, a record file, a variant of one, or no file.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

use sluice_http::body::{Content, ResponseBody};
use sluice_http::fault::{Absent, Activity, ClientFault, Fault, Forbidden, IoFailure, ServerFault};

use crate::body::{FileBody, WHOLE_BYTES_MAX};
use crate::cache::entry::Cached;
use crate::cache::fill::Fill;
use crate::directory::{Directory, is_withheld};
use crate::foreign::is_left;
use crate::foreign::served_file::ServedFile;
use crate::links::refused_link;
use crate::missing_directory::missing_directory;
use crate::open_files::Sent;
use crate::records::RecordFile;
use crate::representation::Representation;

pub(crate) enum Found {
    Cached(Arc<Cached>),
    // Boxed: a file in the cache, the usual case, is moved through many hands.
    File(Box<OpenFile>),
    Records(Box<RecordFile>),
    Precompressed(Box<(Representation, Stored)>),
    /// A variant that is not compressed yet, and that the client has already.
    NotModified(Box<Representation>),
    Directory,
    /// A socket, a device.
    Other,
}

impl Found {
    pub(crate) fn representation(&self) -> Option<&Representation> {
        match self {
            Found::Cached(cached) => Some(&cached.representation),
            Found::File(file) => Some(&file.representation),
            Found::Records(file) => Some(&file.representation),
            Found::NotModified(representation) => Some(representation),
            Found::Precompressed(variant) => Some(&variant.0),
            Found::Directory | Found::Other => None,
        }
    }

    /// Takes how the file is read into the cache, if it is; a record file keeps its own.
    pub(crate) fn take_fill(&mut self) -> Option<Box<Fill>> {
        match self {
            Found::File(file) => file.fill.take(),
            _ => None,
        }
    }

    /// A file whose bytes are sent unconverted, and how it is read into the cache, if it is.
    pub(crate) fn into_stored(self) -> Option<(Representation, Stored, Option<Box<Fill>>)> {
        match self {
            Found::Cached(cached) => {
                let stored = Stored::Memory(cached.content.clone());
                Some((cached.representation.clone(), stored, None))
            }
            Found::File(file) => Some((file.representation, Stored::File(file.body), file.fill)),
            Found::Precompressed(variant) => Some((variant.0, variant.1, None)),
            Found::Records(_) | Found::NotModified(_) | Found::Directory | Found::Other => None,
        }
    }
}

/// A file that is read while it is sent.
pub(crate) struct OpenFile {
    pub representation: Representation,
    pub body: FileBody,
    /// How it is read into the cache, if it is to be kept there.
    pub fill: Option<Box<Fill>>,
}

/// A regular file that was opened for a request.
pub(crate) struct Opened<'a> {
    pub directory: &'a Directory,
    /// The path below the directory.
    pub name: &'a str,
    pub file: ServedFile,
    pub metadata: Metadata,
    pub representation: Representation,
}

/// The bytes of a file: in memory, or to be read while they are sent.
pub(crate) enum Stored {
    Memory(Content),
    File(FileBody),
}

impl Stored {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Stored::Memory(content) => content.len() as u64,
            Stored::File(body) => body.left(),
        }
    }

    pub(crate) fn slice(&self, range: &Range<u64>) -> Stored {
        match self {
            Stored::Memory(content) => Stored::Memory(content.slice(range)),
            Stored::File(body) => Stored::File(body.slice(range)),
        }
    }

    /// A body that is read while it is sent.
    ///
    /// # Errors
    /// 503: too many files are being sent.
    pub(crate) fn into_body(self) -> Result<ResponseBody, Fault> {
        Ok(match self {
            Stored::Memory(content) => ResponseBody::Whole(content),
            Stored::File(body) => ResponseBody::Source(Box::new(Sent::new(body)?)),
        })
    }

    /// Makes a body as `into_body` does, without a permit: a part of a body that has one, or a body that is not sent.
    pub(crate) fn into_part(self) -> ResponseBody {
        match self {
            Stored::Memory(content) => ResponseBody::Whole(content),
            Stored::File(body) => ResponseBody::Source(Box::new(body)),
        }
    }

    /// A body that is read now if it is small and in the page cache.
    pub(crate) fn read_small(self) -> Result<ResponseBody, Fault> {
        let small = match &self {
            Stored::File(body) if body.left() <= WHOLE_BYTES_MAX => body.read_now(),
            _ => None,
        };
        small.map_or_else(|| self.into_body(), |bytes| Ok(ResponseBody::Whole(bytes.into())))
    }
}

pub(crate) fn open_fault(name: &str, error: io::Error) -> Fault {
    if let Some(missing) = missing_directory(&error) {
        return missing.into();
    }
    if let Some(absent) = refused_link(&error) {
        return ClientFault::NotFound(absent).into();
    }
    if is_left(&error) {
        return ServerFault::Unanswered(name.into()).into();
    }
    match error.kind() {
        _ if is_withheld(&error) => ClientFault::NotFound(Absent::Withheld(name.into())).into(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => not_found(name),
        ErrorKind::PermissionDenied => {
            let failure = IoFailure::shared(Activity::File(name.into()), error);
            ClientFault::Forbidden(Forbidden::Unreadable(failure)).into()
        }
        // ENXIO: a socket, or a FIFO without a writer.
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => not_found(name),
        // EAGAIN.
        ErrorKind::WouldBlock => ServerFault::Leased(name.into()).into(),
        _ => ServerFault::io(Activity::File(name.into()), error).into(),
    }
}

/// The fault for a name that does not exist, for the client.
pub(crate) fn not_found(name: &str) -> Fault {
    ClientFault::NotFound(Absent::File(name.into())).into()
}
