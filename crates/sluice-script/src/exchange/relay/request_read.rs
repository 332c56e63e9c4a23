//! The part of its request, and of the body, that the script has read: a request that it has not read can be given to another process, output before that is no reply, and a body that
//! it has left unread is taken out.
//!
//! Only a thread may ask how much a pipe has (`pipe_writer`), unless it is empty.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use sluice_http::fault::Fault;
use tokio::time::timeout;

use super::Relay;
use super::state::{Age, Delivery, State};
use crate::process::{Input, Reading, Violation};

/// How long the answer to the question may take what a script has read.
const READ_ANSWER_MAX: Duration = Duration::from_secs(2);

/// The first output since the request was sent.
pub(super) struct FirstOutput {
    pub(super) bytes: Bytes,
    /// How much the script had read when these bytes were taken. The mailbox is read first, then the channel is asked.
    pub(super) read: Reading,
}

/// The part of its request that the script had read when it wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestRead {
    Nothing,
    BeforeOutput,
    /// Something was left when the output was taken, and less when a thread had counted it: the script may have read after it wrote.
    Perhaps,
}

impl Relay {
    /// Takes the request back from a process that has ended, or written, without reading it. False if it has not, or no other one can get it.
    pub(crate) async fn take_request_back(&mut self) -> bool {
        let is_unread = self.state == State::Overtaken || self.state.is_unread() && self.process.exit().is_some();
        is_unread
            && self.pump.as_ref().is_none_or(|pump| pump.body.is_repeatable())
            && self.channels.cgiplusin.take_back().await
    }

    /// Waits until the standard error of its process is read as far as it goes, and takes out of its standard input, and of the answers to its callouts, what the script has not read, so that the process can be
    /// used again. `needs_settling` says whether there is anything to wait for.
    pub(crate) async fn settle(&mut self) {
        if self.process.errors.has_bytes() {
            self.process.read_errors().await;
        }
        if self.has_body
            && let Some(input) = self.channels.input.as_mut().filter(|input| input.needs_restore())
        {
            input.restore().await;
        }
        if self.channels.cgiplusin.has_stale_answers() {
            self.channels.cgiplusin.discard_answers().await;
        }
    }

    /// Whether something that belongs to this exchange is left in the channels: on standard error, which would be logged with the next one, in standard input, or of the answers to callouts.
    pub(crate) fn needs_settling(&self) -> bool {
        let input = self.channels.input.as_ref().filter(|_| self.has_body);
        self.process.errors.has_bytes()
            || input.is_some_and(Input::needs_restore)
            || self.channels.cgiplusin.has_stale_answers()
    }

    /// Finds out whether the script has read of its request: `is_unread` of CGIPLUSIN then knows it.
    pub(crate) async fn learn_what_is_read(&mut self) {
        let cgiplusin = &mut self.channels.cgiplusin;
        let asked = poll_fn(|context| cgiplusin.poll_is_unread(context));
        // A script that keeps the pipe locked is ended.
        let _ = timeout(READ_ANSWER_MAX, asked).await;
    }

    /// The first output waits until it is known whether the script has read of its request: mostly at once.
    pub(super) fn poll_first_output(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let Some(first) = &self.first_output else {
            return Poll::Ready(Ok(()));
        };
        let read = if first.read == Reading::Begun {
            RequestRead::BeforeOutput
        } else {
            match self.channels.cgiplusin.poll_is_unread(context) {
                Poll::Ready(true) => RequestRead::Nothing,
                Poll::Ready(false) if first.read == Reading::BeingWritten && self.channels.cgiplusin.is_all_read() => {
                    RequestRead::BeforeOutput
                }
                Poll::Ready(false) => RequestRead::Perhaps,
                // A script that keeps the pipe locked is ended.
                Poll::Pending => {
                    return self.poll_too_slow(context);
                }
            }
        };
        if let Some(FirstOutput { bytes, .. }) = self.first_output.take() {
            self.check_request(&bytes, read)?;
            self.push(bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// The first output after the request was sent. It is the reply only if the script has read of the request; otherwise it belongs
    /// to an earlier exchange: the script has written more than one end sentinel, a child process writes late, or the end sentinel
    /// was not one. A new process has no earlier exchange.
    fn check_request(&mut self, bytes: &[u8], read: RequestRead) -> Result<(), Fault> {
        let is_new = self.delivery != Delivery::Record(Age::Used);
        if read == RequestRead::BeforeOutput || read == RequestRead::Perhaps && is_new {
            self.state = self.state.read();
            self.events
                .process(|| "the script has read its request, and writes its reply".into());
        } else if !self.scanner.is_late_newline(bytes) {
            self.state = self.state.overtake();
            return Err(self.fault(match read {
                RequestRead::Perhaps => Violation::WithinRequest,
                _ => Violation::BeforeRequest,
            }));
        }
        Ok(())
    }
}
