//! The last stage: heads, bodies and error pages on their way to hyper, and the line in the access log.

pub(crate) mod accept_encoding;
pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod encode;
pub(crate) mod encoded_body;
pub(crate) mod error_page;
pub(crate) mod head;
pub(crate) mod log;
pub(crate) mod negotiate;
