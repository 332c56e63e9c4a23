//! Waiting for a lock whose holder may wait for a disk.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How long a report waits.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The time between two attempts.
const STEP: Duration = Duration::from_millis(10);

/// The lock, unless another thread holds it for long: a disk that hangs must not hold ever more threads. Not for an event loop.
pub fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::park_timeout(STEP),
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}
