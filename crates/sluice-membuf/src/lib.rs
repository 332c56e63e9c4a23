//! The memory buffer: memory shared by a script process and the server, for bulk output. Both sides of it.
//!
//! Here: the memfd ([`Segment`]), the two shapes it can take ([`PlainBuffer`], [`RingReader`]) and the script's side of
//! the ring ([`RingWriter`]); by the same means, content of the server's own that never changes ([`SealedMemfd`]), and what the
//! kernel has in memory of a file ([`read_cached`]). Not here: the callouts that ask for a buffer (sluice-gateway), waiting
//! for the mailbox and sending the bytes (sluice-server). Floor 1: imports nothing of the workspace.
//!
//! The peer is hostile: it may write anything into the shared pages at any moment, and punch holes into them. Every
//! number read from there is checked before use, nothing the server needs is kept there, and no promise is made about
//! the values of the data bytes. `docs/internals/memory-buffer.md` has the layout and the protocol.
//!
//! ```
//! use sluice_membuf::{RingWriter, Segment};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (_mailbox, doorbell) = std::io::pipe()?;
//! let mut segment = Segment::create()?;
//! let mut reader = segment.begin_ring(64 * 1024)?;
//! let mut writer = RingWriter::open(segment.fd(), doorbell.into())?; // in the script process
//! writer.write(b"hello")?;
//! let piece = reader.take(16 * 1024)?.expect("five bytes were committed");
//! assert_eq!(&piece[..], b"hello");
//! drop(piece); // sent: the script may use that room again
//! assert!(reader.is_drained());
//! # Ok(()) }
//! ```
//
// Unsafe is allowed here because sharing memory with another process cannot be said in safe Rust: the memfd
// (segment.rs, sealed_memfd.rs), its mappings and the views of them (mapping.rs), the futex call (futex.rs), two questions to the
// system (ring_writer.rs); and because no library reads a file's cached part into memory that was not cleared first
// (page_cache.rs). Nothing else in the crate uses it.
#![allow(unsafe_code)]
// The model checker sees the protocol, not the mappings that use it.
#![cfg_attr(loom, allow(dead_code, unused_imports, rustdoc::broken_intra_doc_links))]

mod cursor;
mod doorbell;
pub mod layout;
mod ledger;
mod sync;

#[cfg(not(loom))]
mod futex;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
mod page_cache;
#[cfg(not(loom))]
mod plain_buffer;
#[cfg(not(loom))]
mod ring_reader;
#[cfg(not(loom))]
mod ring_writer;
#[cfg(not(loom))]
mod sealed_memfd;
#[cfg(not(loom))]
mod segment;

#[cfg(all(loom, test))]
mod loom_model;

pub use cursor::RingFault;
#[cfg(not(loom))]
pub use page_cache::read_cached;
#[cfg(not(loom))]
pub use plain_buffer::{BufferFault, PlainBuffer};
#[cfg(not(loom))]
pub use ring_reader::RingReader;
#[cfg(not(loom))]
pub use ring_writer::{RingWriter, WriteError};
#[cfg(not(loom))]
pub use sealed_memfd::SealedMemfd;
#[cfg(not(loom))]
pub use segment::{BeginError, Segment};
