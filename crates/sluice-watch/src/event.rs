//! Events of connections and exchanges, for watches.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::item::Item;

/// Something that happened to a connection or to an exchange.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: SystemTime,
    /// How long after its connection was accepted, or its request's head was complete.
    pub since: Duration,
    /// The part of the server that noted it: `"net"`, `"decide"`, `"script"`.
    pub module: &'static str,
    /// The kind of event.
    pub item: Item,
    /// The number of the connection or exchange among all that were watched. Lines of one exchange have the same.
    pub number: u64,
    /// The number of the exchange's connection, if it is watched. `None` of a connection.
    pub connection: Option<u64>,
    /// The id of the exchange, as in the logs. `None` of a connection.
    pub id: Option<Arc<str>>,
    /// The text or the bytes.
    pub content: Content,
}

/// The text of an event, or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// One or several lines, without a newline at the end.
    Text(String),
    /// Bytes, shown as text where they are text, otherwise as a hex dump.
    Bytes {
        /// The direction.
        direction: Direction,
        /// The bytes, masked; at most so many as the watch shows of a request.
        bytes: Vec<u8>,
        /// Bytes that followed and are not shown.
        omitted: usize,
    },
}

/// Bytes that an event takes besides: the counts of its `Arc`, the heads of its two allocations, and its place in a queue.
const EVENT_OVERHEAD: usize = 16 + 2 * 16 + size_of::<Arc<Event>>();

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The client sent them, or the server wrote them to a script.
    Received,
    /// The server sent them to the client, or a script wrote them.
    Sent,
}

impl Direction {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Received => "received",
            Direction::Sent => "sent",
        }
    }
}

impl Event {
    /// The memory that it occupies in a queue, bytes: the event and its content as they were allocated, and its place in the queue.
    #[must_use]
    pub fn size(&self) -> usize {
        let content = match &self.content {
            Content::Text(text) => text.capacity(),
            Content::Bytes { bytes, .. } => bytes.capacity(),
        };
        size_of::<Event>() + content + EVENT_OVERHEAD
    }
}
