//! To be filled: cgi.
