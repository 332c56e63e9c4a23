//! A part of a worker: something that ticks once a second, and that ends in its turn when the server drains.
//!
//! A worker has a list of parts, and needs to know no more of them.

use std::future::Future;
use std::pin::Pin;

/// A wait of a part.
pub type Pending<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A part of a worker, on the worker's thread.
pub trait Part {
    /// Sees to what is due. The worker calls this once a second.
    fn tick(&self);

    /// Takes no more work, and waits for what is in progress as long as the settings say. The wait may be dropped.
    fn drain(&self) -> Pending<'_>;

    /// Ends what is left, and waits until nothing is.
    fn idle(&self) -> Pending<'_>;
}

/// Drains the parts of a worker one after the other, until a future of `ending` is ready, and then has each become idle.
pub async fn end<F: Future<Output = ()>>(parts: &[Box<dyn Part>], ending: impl Fn() -> F) {
    for part in parts {
        tokio::select! {
            // A part begins to drain, even if it is not waited for.
            biased;
            () = part.drain() => {}
            () = ending() => {}
        }
    }
    for part in parts {
        part.idle().await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::{pending, ready};
    use std::rc::Rc;

    use super::*;

    /// Notes what happens to it; `hangs` if its work does not end by itself.
    struct Noted {
        name: &'static str,
        hangs: bool,
        notes: Rc<RefCell<Vec<String>>>,
    }

    impl Noted {
        fn note(&self, what: &str) {
            self.notes.borrow_mut().push(format!("{} {what}", self.name));
        }
    }

    impl Part for Noted {
        fn tick(&self) {
            self.note("ticks");
        }

        fn drain(&self) -> Pending<'_> {
            Box::pin(async move {
                self.note("drains");
                if self.hangs {
                    pending::<()>().await;
                }
                self.note("is drained");
            })
        }

        fn idle(&self) -> Pending<'_> {
            Box::pin(async move { self.note("is idle") })
        }
    }

    fn notes_of_end(hangs: bool, is_ending: bool) -> Vec<String> {
        let notes = Rc::default();
        let part = |name| -> Box<dyn Part> {
            let notes = Rc::clone(&notes);
            Box::new(Noted { name, hangs, notes })
        };
        let parts = [part("one"), part("other")];
        parts.iter().for_each(|part| part.tick());
        let ending = || -> Pending<'static> {
            match is_ending {
                true => Box::pin(ready(())),
                false => Box::pin(pending()),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(end(&parts, ending));
        notes.take()
    }

    #[test]
    fn parts_end_in_their_order() {
        let expected = [
            "one ticks",
            "other ticks",
            "one drains",
            "one is drained",
            "other drains",
            "other is drained",
            "one is idle",
            "other is idle",
        ];
        assert_eq!(notes_of_end(false, false), expected);
        assert_eq!(notes_of_end(false, true), expected);
    }

    #[test]
    fn work_that_does_not_end_is_not_awaited_when_the_server_ends_at_once() {
        let expected = [
            "one ticks",
            "other ticks",
            "one drains",
            "other drains",
            "one is idle",
            "other is idle",
        ];
        assert_eq!(notes_of_end(true, true), expected);
    }
}
