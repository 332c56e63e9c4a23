//! To be filled: bad_clients.
