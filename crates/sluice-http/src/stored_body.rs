//! Request bodies that are stored before they are passed on, because their receiver needs the length first.

use std::fs::{File, Permissions};
use std::io::{self, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use sluice_membuf::{Budget, OverBudget, Reservation};
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio::task::spawn_blocking;

use crate::elsewhere::DroppedElsewhere;
use crate::fault::{Activity, Fault, ServerFault};
use crate::request_body::{RequestBody, too_large};

/// Bodies up to this size, bytes, are stored in memory, larger ones in a file without a name.
const MEMORY_BYTES_MAX: usize = 64 << 10;

/// The mode of a file that is passed to a process.
const READ_ONLY: u32 = 0o444;

/// Chunks of a body are collected up to this size, bytes, before a thread writes them to its file.
const WRITE_BYTES_MIN: usize = 64 << 10;

/// The room for the stored bodies of the whole server.
pub struct BodyStorage {
    budget: Arc<Budget>,
    directory: Mutex<Arc<Path>>,
}

/// A body that was stored.
pub enum StoredBody {
    /// A body in memory.
    Memory(Bytes, Reservation),
    /// A body in a file, whose position is the beginning.
    File(StoredFile),
}

/// A file without a name that holds a body. A thread closes it, because the system then frees its blocks.
pub struct StoredFile(DroppedElsewhere<(File, Reservation)>);

/// A body that is being stored in memory: copied, because a chunk of one byte keeps a whole block of the connection alive.
struct InMemory {
    bytes: Vec<u8>,
    /// The part of the budget for the capacity of `bytes`.
    reservation: Reservation,
}

/// A body that is being stored in a file.
struct Spool {
    /// A thread closes it if the client leaves.
    file: DroppedElsewhere<(tokio::fs::File, Reservation)>,
    /// Chunks that are not written yet, copied together: a thread is asked for each write.
    collected: Vec<u8>,
}

impl BodyStorage {
    /// Room for so many bytes, the larger bodies as files of this directory.
    pub fn new(bytes_max: u64, directory: Arc<Path>) -> BodyStorage {
        BodyStorage {
            budget: Budget::new(bytes_max),
            directory: Mutex::new(directory),
        }
    }

    /// Sets another bound and directory. Bodies that exceed it remain until they are dropped.
    pub fn apply(&self, bytes_max: u64, directory: Arc<Path>) {
        self.budget.set_bytes_max(bytes_max);
        *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = directory;
    }
}

impl RequestBody {
    /// Stores the whole body. Returns its length, too. The fault is the client's (as of `poll_chunk`), or the server's: no room.
    pub async fn store(mut self, storage: &BodyStorage) -> Result<(StoredBody, u64), Fault> {
        let mut memory = InMemory::new(Reservation::empty(&storage.budget));
        let last = loop {
            let Some(chunk) = self.chunk().await? else {
                return Ok((memory.finish(), self.received()));
            };
            if self.received() > MEMORY_BYTES_MAX as u64 {
                break chunk;
            }
            memory.push(&chunk)?;
        };
        let mut spool = Spool::create(storage, memory).await?;
        spool.push(&last).await?;
        drop(last);
        while let Some(chunk) = self.chunk().await? {
            spool.push(&chunk).await?;
        }
        Ok((StoredBody::File(spool.finish().await?), self.received()))
    }
}

impl InMemory {
    fn new(reservation: Reservation) -> InMemory {
        InMemory { bytes: Vec::new(), reservation }
    }

    fn push(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        let (before, needed) = (self.bytes.capacity(), self.bytes.len() + chunk.len());
        if needed > before {
            // Doubled, but no further than it may have to be.
            let capacity = (2 * before).min(MEMORY_BYTES_MAX).max(needed);
            self.bytes.reserve_exact(capacity - self.bytes.len());
            grow(&mut self.reservation, self.bytes.capacity() - before)?;
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    fn finish(self) -> StoredBody {
        StoredBody::Memory(self.bytes.into(), self.reservation)
    }
}

impl Spool {
    /// A new file that begins with the bytes in memory.
    async fn create(storage: &BodyStorage, memory: InMemory) -> Result<Spool, Fault> {
        let InMemory { bytes, mut reservation } = memory;
        let directory = Arc::clone(&storage.directory.lock().unwrap_or_else(PoisonError::into_inner));
        let created = spawn_blocking(move || tempfile::tempfile_in(directory)).await;
        let file = created
            .map_err(io::Error::other)
            .and_then(|file| file)
            .map_err(not_stored)?;
        let file = tokio::fs::File::from_std(file);
        // The bytes in memory are the first that are written.
        reservation.shrink_to(bytes.len() as u64);
        Ok(Spool {
            file: DroppedElsewhere::new((file, reservation)),
            collected: bytes,
        })
    }

    /// Adds a chunk. It is written at once only if it is large, or if enough has been collected.
    async fn push(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        grow(&mut self.file.1, chunk.len())?;
        if self.collected.len() + chunk.len() > WRITE_BYTES_MIN {
            self.write_collected().await?;
        }
        if chunk.len() >= WRITE_BYTES_MIN {
            return Ok(self.file.0.write_all(chunk).await.map_err(not_stored)?);
        }
        self.collected.extend_from_slice(chunk);
        Ok(())
    }

    async fn write_collected(&mut self) -> Result<(), Fault> {
        // Empty, there is nothing to ask a thread for.
        if !self.collected.is_empty() {
            self.file.0.write_all(&self.collected).await.map_err(not_stored)?;
            self.collected.clear();
        }
        Ok(())
    }

    /// The file, at its beginning.
    async fn finish(mut self) -> Result<StoredFile, Fault> {
        self.write_collected().await?;
        let file = &mut self.file.0;
        file.flush().await.map_err(not_stored)?;
        file.seek(SeekFrom::Start(0)).await.map_err(not_stored)?;
        let (file, reservation) = self.file.into_inner();
        Ok(StoredFile(DroppedElsewhere::new((file.into_std().await, reservation))))
    }
}

impl StoredFile {
    /// The file, to read from its position on.
    pub fn file(&self) -> &File {
        &self.0.0
    }

    /// The file, only for reading and from its beginning on, and the reservation of its bytes, for a process of any user: what the process could write to it would count in
    /// no budget. Other users can open it by the names of that process's descriptor, for reading, too.
    ///
    /// # Errors
    /// The system refuses it.
    pub async fn into_read_only(self) -> Result<(OwnedFd, Reservation), Fault> {
        let (file, reservation) = self.0.into_inner();
        let opened = spawn_blocking(move || {
            file.set_permissions(Permissions::from_mode(READ_ONLY))?;
            File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        });
        let opened = opened.await.map_err(|error| not_stored(io::Error::other(error)))?;
        Ok((opened.map_err(not_stored)?.into(), reservation))
    }
}

fn grow(reservation: &mut Reservation, bytes: usize) -> Result<(), Fault> {
    let full = |over: OverBudget| {
        if over.is_too_large() {
            too_large(over.bytes_max)
        } else {
            ServerFault::StoredBodiesFull(over.bytes_max).into()
        }
    };
    reservation.grow(bytes as u64).map_err(full)
}

fn not_stored(error: io::Error) -> ServerFault {
    ServerFault::io(Activity::StoreBody, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_memory_keep_no_block_of_the_connection_alive_and_their_capacity_is_counted() {
        let budget = Budget::new(1000);
        let mut memory = InMemory::new(Reservation::empty(&budget));
        for length in [1, 1, 100, 7, 300] {
            let block = Bytes::from(vec![7; 8192]);
            memory.push(&block.slice(..length)).unwrap();
            assert!(block.is_unique());
            assert_eq!(budget.used_bytes(), memory.bytes.capacity() as u64);
        }
        assert!(memory.push(&[7; 1000]).is_err(), "more than the budget");
        let StoredBody::Memory(bytes, reservation) = memory.finish() else {
            unreachable!("finish stores in memory");
        };
        assert_eq!(bytes, [7; 409].as_slice());
        drop(reservation);
        assert_eq!(budget.used_bytes(), 0);
    }
}
