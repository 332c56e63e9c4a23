//! Memory that needs unsafe code: the memory buffer, sealed memfds, reads from the page cache, and a socket's send queue.
//!
//! Five parts:
//! - **The memory buffer**, which a script process and the server share for bulk output: its memfd ([`Segment`]), its
//!   two kinds ([`PlainBuffer`], [`RingReader`]), and the script's side of the ring ([`RingWriter`]).
//! - **Sealed memfds** ([`SealedMemfd`]): immutable content of the server, such as cached files, from which the kernel
//!   sends without a copy. No script has access.
//! - **Reads from the page cache** ([`read_cached`], [`append_cached`]): the part of a file that is in memory, without waiting for a disk.
//! - **Budgets** ([`Budget`]): bounds on the bytes that all threads hold together.
//! - **The send queue of a socket** ([`unacknowledged_bytes`]): what its peer has not acknowledged.
//!
//! Floor 1: imports nothing of the workspace.
//!
//! The script is treated as hostile: it may write anything into the shared pages at any time, and punch holes into
//! them. Every number read from there is validated before use, the server stores nothing there that it needs, and the
//! values of the data bytes are arbitrary. `docs/internals/memory-buffer.md` describes the layout and the protocol.
//!
//! ```
//! use sluice_membuf::{RingWriter, Segment};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (_mailbox, doorbell) = std::io::pipe()?;
//! let mut segment = Segment::create(64 * 1024)?;
//! let mut reader = segment.begin_ring(64 * 1024)?;
//! let mut writer = RingWriter::open(segment.fd(), doorbell.into())?; // in the script process
//! writer.write(b"hello")?;
//! let chunk = reader.take(16 * 1024)?.expect("five bytes were committed");
//! assert_eq!(&chunk[..], b"hello");
//! drop(chunk); // sent: the script may overwrite it
//! assert!(reader.is_drained());
//! # Ok(()) }
//! ```
//
// Unsafe is allowed here because safe Rust cannot share memory with another process: the mappings of memfds and the views of them (mapping.rs), and the
// replacement of their missing pages (bus_error.rs); and because no library reads the cached part of a file into uninitialised memory (page_cache.rs),
// the length of a send queue (socket_queue.rs), or how often a thread has waited (read_watch.rs). No other file uses it.
#![allow(unsafe_code)]
// The model checker compiles the protocol without the mappings that use it.
#![cfg_attr(loom, allow(dead_code, unused_imports, rustdoc::broken_intra_doc_links))]

mod cursor;
mod doorbell;
pub mod layout;
mod ledger;
mod sync;

#[cfg(not(loom))]
mod budget;
#[cfg(not(loom))]
mod bus_error;
#[cfg(not(loom))]
mod futex;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
mod mem_file;
#[cfg(not(loom))]
mod output_regions;
#[cfg(not(loom))]
mod page_cache;
#[cfg(not(loom))]
mod plain_buffer;
#[cfg(not(loom))]
mod read_watch;
#[cfg(not(loom))]
mod ring_reader;
#[cfg(not(loom))]
mod ring_writer;
#[cfg(not(loom))]
mod sealed_memfd;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod shared_memory;
#[cfg(not(loom))]
mod socket_queue;

#[cfg(all(loom, test))]
mod loom_model;

pub use cursor::RingFault;
#[cfg(not(loom))]
pub use {
    budget::{Budget, OverBudget, Reservation},
    output_regions::{OutputRegion, PARTS_MAX, REGION_BYTES},
    page_cache::{append_cached, read_cached},
    plain_buffer::{BufferFault, PlainBuffer},
    read_watch::{ReadFault, ReadWatch},
    ring_reader::RingReader,
    ring_writer::{RingWriter, WriteError},
    sealed_memfd::SealedMemfd,
    segment::{BeginError, KEPT_BYTES, Segment, memory_total_bytes},
    shared_memory::{Garbage, Release},
    socket_queue::unacknowledged_bytes,
};
