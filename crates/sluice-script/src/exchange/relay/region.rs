//! The output region of an exchange: the body of a large reply, which the script puts into shared memory (BUFFER-REGION).

use std::task::{Context, Poll};

use bytes::Bytes;
use sluice_gateway::{Answer, BufferPart, Callout, CalloutRequest};
use sluice_http::fault::Fault;
use sluice_membuf::OutputRegion;

use super::{Relay, ReplyEvent};
use crate::process::Violation;

/// The region that a request announced, and what the script waits for there.
#[derive(Default)]
pub(super) struct AnnouncedRegion {
    /// `None` if the process has no regions, or the client of an earlier reply still has to get bytes from each.
    region: Option<OutputRegion>,
    /// The script waits until this part was sent (BUFFER-FREE).
    awaited: Option<BufferPart>,
}

impl AnnouncedRegion {
    /// Whether the script waits until the client has got a part.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }
}

impl Relay {
    pub(crate) fn with_region(mut self: Box<Self>, region: Option<OutputRegion>) -> Box<Relay> {
        self.region.region = region;
        self
    }

    /// Carries out a callout about the region: the bytes that it adds to the output, if any, or the wait for a part to be free.
    pub(super) fn region_of(&mut self, request: &CalloutRequest) -> Result<Option<ReplyEvent>, Fault> {
        match request.request {
            Callout::BufferRegion(part) => self.take_region(part).map(Some),
            Callout::BufferFree(part) if request.wants_answer => self.await_freed(part).map(|()| None),
            _ => Ok(None),
        }
    }

    /// BUFFER-REGION: bytes of the announced region, in their place among those of the mailbox. Those of a head are copied, because
    /// it is parsed. While a ring is open its bytes have no defined place beside those of the region.
    fn take_region(&mut self, part: Option<BufferPart>) -> Result<ReplyEvent, Fault> {
        let output = match (self.region.region, &self.channels.segment, part) {
            (Some(region), Some(segment), Some(part)) if !self.callouts.buffer.is_ring() => {
                segment.output(region, part.offset, part.bytes)
            }
            _ => Ok(None),
        };
        let output = match output {
            Ok(Some(output)) => Ok(Some(self.touch(output)?)),
            other => other,
        };
        match output {
            Ok(Some(output)) if self.state.has_head() => {
                self.events.bulk(output.len());
                Ok(ReplyEvent::Region(output))
            }
            Ok(Some(output)) => Ok(ReplyEvent::Mailbox(Bytes::copy_from_slice(&output))),
            Ok(None) => Err(self.fault(match part {
                Some(part) if !self.callouts.buffer.is_ring() && self.announces(part) => Violation::RegionParts(part),
                _ => Violation::Region(part),
            })),
            Err(error) => Err(self.fault(Violation::Mailbox(error))),
        }
    }

    fn announces(&self, part: BufferPart) -> bool {
        self.region
            .region
            .is_some_and(|region| region.has(part.offset, part.bytes))
    }

    /// BUFFER-FREE: the answer comes when the client has got these bytes.
    fn await_freed(&mut self, part: BufferPart) -> Result<(), Fault> {
        if !self.announces(part) || self.region.is_awaited() {
            let text = "BUFFER-FREE wants bytes of the announced region (WWW_GATEWAY_REGION), one part at a time";
            return self.answer(Some(Answer::new(400, text)));
        }
        self.region.awaited = Some(part);
        Ok(())
    }

    /// Answers BUFFER-FREE once that part was sent. True if it was just now.
    pub(super) fn answer_freed(&mut self, context: &Context<'_>) -> Result<bool, Fault> {
        let (Some(BufferPart { bytes, offset }), Some(region)) = (self.region.awaited, self.region.region) else {
            return Ok(false);
        };
        let segment = self.channels.segment.as_ref();
        if self.callouts.buffer.is_beginning() {
            // A thread has the segment.
            return Ok(false);
        }
        let freed = segment.map(|segment| segment.poll_output_freed(region, offset, bytes, context));
        if freed == Some(Poll::Pending) {
            return Ok(false);
        }
        self.region.awaited = None;
        self.answer(Some(Answer::ok(format!("{bytes} {offset}"))))?;
        Ok(true)
    }
}
