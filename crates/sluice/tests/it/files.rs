//! To be filled: files.
