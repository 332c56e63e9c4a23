//! The wake-up of the log's thread, and the commands for it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the thread waits after a write before it looks for more lines, so that lines collect.
const COLLECT: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(crate) struct Commands {
    /// Reopen all files under their names, but for these.
    pub reopen: Option<BTreeSet<PathBuf>>,
    /// Write the remaining lines and end.
    pub end: bool,
}

impl Commands {
    fn is_empty(&self) -> bool {
        self.reopen.is_none() && !self.end
    }
}

/// Wakes the thread for lines and commands.
#[derive(Default)]
pub(crate) struct Wakeup {
    commands: Mutex<Commands>,
    wake: Condvar,
    /// Whether the thread sleeps until it is woken, and nobody has done so yet. Set under the lock of `commands`.
    is_asleep: AtomicBool,
}

impl Wakeup {
    pub(crate) fn send(&self, command: impl FnOnce(&mut Commands)) {
        command(&mut lock(&self.commands));
        self.wake.notify_one();
    }

    /// Wakes the thread for a line, if it sleeps. Only the first line after it fell asleep costs a system call.
    pub(crate) fn wake_if_asleep(&self) {
        // SeqCst, as in `wait`: either this sees that the thread sleeps, or the thread sees the line after it has set
        // `is_asleep`. The load comes first because it leaves the cache line with every worker.
        if self.is_asleep.load(Ordering::SeqCst) && self.is_asleep.swap(false, Ordering::SeqCst) {
            // Under the lock: the thread holds it from setting `is_asleep` until it waits.
            let _commands = lock(&self.commands);
            self.wake.notify_one();
        }
    }

    /// Waits for lines or commands: first for a moment, so that lines collect, then until one comes or `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Option<Duration>, has_lines: impl Fn() -> bool) -> Commands {
        let mut commands = lock(&self.commands);
        if commands.is_empty() {
            (commands, _) = self
                .wake
                .wait_timeout(commands, COLLECT)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if commands.is_empty() && !has_lines() {
            let mut is_over = false;
            while !is_over && commands.is_empty() {
                // Again after each wake-up, because who wakes it clears it.
                self.is_asleep.store(true, Ordering::SeqCst);
                if has_lines() {
                    break;
                }
                (commands, is_over) = self.sleep(commands, timeout);
            }
            self.is_asleep.store(false, Ordering::SeqCst);
        }
        std::mem::take(&mut commands)
    }

    /// Sleeps until it is woken. True if the timeout has passed.
    fn sleep<'a>(
        &self,
        commands: MutexGuard<'a, Commands>,
        timeout: Option<Duration>,
    ) -> (MutexGuard<'a, Commands>, bool) {
        let Some(timeout) = timeout else {
            let commands = self.wake.wait(commands).unwrap_or_else(PoisonError::into_inner);
            return (commands, false);
        };
        let waited = self.wake.wait_timeout(commands, timeout);
        let (commands, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (commands, result.timed_out())
    }
}

/// Locks a mutex of the log. If another holder panicked, the data is still consistent: only whole lines are ever in it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const WRITERS: usize = 3;

    #[test]
    fn lines_of_several_writers_wake_a_thread_that_sleeps() {
        let (wakeup, lines) = (Wakeup::default(), AtomicUsize::new(0));
        let (sender, taken) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let sender = sender;
                while !wakeup.wait(None, || lines.load(Ordering::SeqCst) > 0).end {
                    sender.send(lines.swap(0, Ordering::SeqCst)).unwrap();
                }
            });
            for _ in 0..20 {
                for _ in 0..WRITERS {
                    scope.spawn(|| {
                        lines.fetch_add(1, Ordering::SeqCst);
                        wakeup.wake_if_asleep();
                    });
                }
                // Hangs if a wake-up is lost.
                let mut left = WRITERS;
                while left > 0 {
                    left -= taken.recv().unwrap();
                }
            }
            wakeup.send(|commands| commands.end = true);
        });
    }

    #[test]
    fn only_the_first_line_wakes_the_thread() {
        let wakeup = Wakeup::default();
        wakeup.is_asleep.store(true, Ordering::SeqCst);
        wakeup.wake_if_asleep();
        assert!(!wakeup.is_asleep.load(Ordering::SeqCst));
    }
}
