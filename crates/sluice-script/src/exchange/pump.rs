//! The pump: copies a request body to a script's standard input while the reply is read.

use std::io::ErrorKind;
use std::task::{Context, Poll};

use sluice_http::body_source::RepeatableBody;
use sluice_http::fault::Fault;
use sluice_http::tasks::yield_now;

use crate::process::Input;

/// Steps after which the other tasks of the worker get their turn.
const STEPS_MAX: usize = 64;

pub(crate) struct Pump {
    pub body: RepeatableBody,
    /// Everything was written, or the script has closed its input.
    pub is_done: bool,
}

impl Pump {
    pub(crate) fn new(body: RepeatableBody) -> Pump {
        Pump { body, is_done: false }
    }

    pub(crate) fn awaits_client(&self) -> bool {
        !self.is_done && self.body.awaits_client()
    }

    /// Copies what the pipe accepts now; true if that is anything. The fault is the client's (a bad body) or the server's (a stored body).
    pub(crate) fn poll(&mut self, input: &mut Input, context: &mut Context<'_>) -> Result<bool, Fault> {
        let mut has_moved = false;
        for _ in 0..STEPS_MAX {
            if self.is_done {
                return Ok(has_moved);
            }
            let bytes = match self.body.poll_bytes(context)? {
                Poll::Ready(Some(bytes)) => bytes,
                Poll::Ready(None) => {
                    self.is_done = true;
                    continue;
                }
                Poll::Pending => return Ok(has_moved),
            };
            match input.pipe.try_write(bytes) {
                Ok(length) => {
                    has_moved = true;
                    self.body.consume(length);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !matches!(input.pipe.poll_room(context), Poll::Ready(Ok(()))) {
                        return Ok(has_moved);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The script has closed its input, which is no error.
                Err(_) => self.is_done = true,
            }
        }
        yield_now(context);
        Ok(has_moved)
    }
}
