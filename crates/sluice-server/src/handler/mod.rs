//! The third stage: what a route does. Each handler takes the request and returns a response or a fault.

pub(crate) mod cache;
pub(crate) mod conditions;
pub(crate) mod encodings;
pub(crate) mod file;
pub(crate) mod file_body;
pub(crate) mod file_response;
pub(crate) mod folder;
pub(crate) mod listing;
pub(crate) mod making;
pub(crate) mod multipart;
pub(crate) mod ranges;
pub(crate) mod records;
pub(crate) mod redirect;
pub(crate) mod reply_encoding;
pub(crate) mod representation;
pub(crate) mod script;
pub(crate) mod send_file;
pub(crate) mod types;
