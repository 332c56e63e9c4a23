//! The bytes that a connection has received: what a request body costs beside its data.

/// Receives the bytes of requests.
pub trait Receiver {
    /// The bytes received so far.
    fn received(&self) -> Received;
}

/// Bytes received, framing included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// All; wraps around.
    pub bytes: u32,
    /// The bytes of the last read. In a body, bytes are read only when those before them have been parsed.
    pub last: u32,
}
