//! Drops on a blocking thread, of what the system may take long to release.

use std::ops::{Deref, DerefMut};

use tokio::runtime::Handle;

/// Drops memory or a file on a blocking thread, because the system may take milliseconds to release a large one.
pub fn drop_elsewhere<T: Send + 'static>(value: T) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(value))),
        // The event loop has ended.
        Err(_) => drop(value),
    }
}

/// A value that is dropped on a blocking thread.
pub struct DroppedElsewhere<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> DroppedElsewhere<T> {
    /// Holds the value.
    pub fn new(value: T) -> DroppedElsewhere<T> {
        DroppedElsewhere(Some(value))
    }

    /// Takes the value out; then it is dropped like any other.
    pub fn into_inner(mut self) -> T {
        self.0.take().expect(TAKEN_ONCE)
    }
}

impl<T: Send + 'static> Deref for DroppedElsewhere<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect(TAKEN_ONCE)
    }
}

impl<T: Send + 'static> DerefMut for DroppedElsewhere<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(TAKEN_ONCE)
    }
}

impl<T: Send + 'static> Drop for DroppedElsewhere<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            drop_elsewhere(value);
        }
    }
}

const TAKEN_ONCE: &str = "the value is taken by into_inner, which consumes its holder";
