//! To be filled: log.
