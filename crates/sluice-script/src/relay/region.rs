//! The output region of an exchange: the end of a large reply, which the script puts into shared memory (BUFFER-REGION).
//!
//! Not here: the memory (sluice-membuf), and the rest of the conversation (`relay`).

use bytes::Bytes;
use sluice_gateway::Callout;
use sluice_http::fault::Fault;
use sluice_membuf::OutputRegion;

use super::{Relay, ReplyEvent};
use crate::process_fault::Violation;

impl Relay {
    /// A region was announced with the request.
    pub(crate) fn with_region(mut self: Box<Self>, region: Option<OutputRegion>) -> Box<Relay> {
        self.region = region;
        self
    }

    /// What a callout inserts into the output.
    pub(super) fn region_of(&mut self, callout: &Callout) -> Result<Option<ReplyEvent>, Fault> {
        match callout {
            Callout::BufferRegion { bytes } => self.take_region(*bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// BUFFER-REGION: the first bytes of the announced region, in their place among those of the mailbox. Those of a head are copied, because
    /// it is parsed. While a ring is open its bytes have no defined place beside those of the region.
    fn take_region(&mut self, bytes: Option<u64>) -> Result<ReplyEvent, Fault> {
        let output = match (self.region.take(), &self.channels.segment, bytes) {
            (Some(region), Some(segment), Some(bytes)) if !self.callouts.buffer.is_ring() => {
                segment.output(region, bytes)
            }
            _ => Ok(None),
        };
        match output {
            Ok(Some(output)) if self.has_head => {
                self.events.bulk(output.len());
                Ok(ReplyEvent::Region(output))
            }
            Ok(Some(output)) => Ok(ReplyEvent::Mailbox(Bytes::copy_from_slice(&output))),
            Ok(None) => Err(self.fault(Violation::Region(bytes))),
            Err(error) => Err(self.fault(Violation::Mailbox(error))),
        }
    }
}
