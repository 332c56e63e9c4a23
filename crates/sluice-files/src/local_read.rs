//! Reads of local files that are not in memory, by the blocking threads of the worker, of which a file has a share.
//!
//! Whoever may read a file can make reads of it slow for everybody: he drops it from memory (posix_fadvise(2)), and reads it ahead in a cgroup whose reads are throttled. A client that asks for
//! many ranges of it would take all threads then, and no other file would be read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use sluice_http::fault::Fault;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::foreign::served_file::ServedFile;

/// Threads of a worker that read the same file at once; a disk is busy with fewer.
const OF_FILE_MAX: usize = 16;

/// Files that are known before those are forgotten that nobody reads.
const KNOWN_MAX: usize = 64;

thread_local! {
    /// The files that threads of this worker read, by device and inode.
    static FILES: RefCell<HashMap<(u64, u64), Weak<Semaphore>>> = RefCell::default();
}

type Chunk = io::Result<Vec<u8>>;

/// A read by another thread. Dropping it cancels a read of a local file if no thread has started it.
pub(crate) enum ReadAhead {
    Running(JoinHandle<Chunk>),
    /// Others read the same file, or another process or machine serves it.
    Waiting(Pin<Box<dyn Future<Output = Chunk>>>),
}

impl ReadAhead {
    /// Begins a read of this local file, by a blocking thread of the worker.
    pub(crate) fn begin(
        runtime: &Handle,
        file: &ServedFile,
        read: impl FnOnce() -> Chunk + Send + 'static,
    ) -> ReadAhead {
        let share = share_of(file);
        let permit = Arc::clone(&share).try_acquire_owned();
        let runtime = runtime.clone();
        let run = move |permit: Option<OwnedSemaphorePermit>| {
            runtime.spawn_blocking(move || {
                let _until_it_is_read = permit;
                read()
            })
        };
        match permit {
            Ok(permit) => ReadAhead::Running(run(Some(permit))),
            // Nobody closes the semaphore.
            Err(_) => ReadAhead::Waiting(Box::pin(async move {
                let ran = run(share.acquire_owned().await.ok()).await;
                ran.unwrap_or_else(|error| Err(io::Error::other(error)))
            })),
        }
    }

    /// A read by a thread of `foreign`, which has begun.
    pub(crate) fn elsewhere(read: impl Future<Output = Result<Chunk, Fault>> + 'static) -> ReadAhead {
        ReadAhead::Waiting(Box::pin(async move {
            read.await.unwrap_or_else(|fault| Err(io::Error::other(fault)))
        }))
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Chunk> {
        match self {
            ReadAhead::Running(task) => {
                let ran = ready!(Pin::new(task).poll(context));
                Poll::Ready(ran.unwrap_or_else(|error| Err(io::Error::other(error))))
            }
            ReadAhead::Waiting(read) => read.as_mut().poll(context),
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if let ReadAhead::Running(task) = self {
            task.abort();
        }
    }
}

/// The permits for reads of a file. A file whose identity is not known has its own.
fn share_of(file: &ServedFile) -> Arc<Semaphore> {
    let new = || Arc::new(Semaphore::new(OF_FILE_MAX));
    let Ok(metadata) = file.metadata() else { return new() };
    FILES.with_borrow_mut(|files| {
        if files.len() >= KNOWN_MAX {
            files.retain(|_, share| share.strong_count() > 0);
        }
        let known = files.entry((metadata.dev(), metadata.ino())).or_default();
        known.upgrade().unwrap_or_else(|| {
            let share = new();
            *known = Arc::downgrade(&share);
            share
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::future::poll_fn;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn reads_of_one_file_leave_threads_for_others() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, name).unwrap();
            ServedFile::local(File::open(path).unwrap())
        };
        let (slow, other) = (open("slow"), open("other"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(OF_FILE_MAX + 1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let handle = Handle::current();
            let (ends, reads): (Vec<mpsc::Sender<()>>, Vec<ReadAhead>) = (0..2 * OF_FILE_MAX)
                .map(|_| {
                    let (end, ended) = mpsc::channel();
                    let read = move || {
                        let _ = ended.recv();
                        Ok(b"slow".to_vec())
                    };
                    (end, ReadAhead::begin(&handle, &slow, read))
                })
                .unzip();
            let mut read = ReadAhead::begin(&handle, &other, || Ok(b"other".to_vec()));
            assert_eq!(poll_fn(|context| read.poll(context)).await.unwrap(), b"other");
            drop(ends);
            for mut read in reads {
                assert_eq!(poll_fn(|context| read.poll(context)).await.unwrap(), b"slow");
            }
            FILES.with_borrow(|files| assert_eq!(files.len(), 2));
        });
    }
}
