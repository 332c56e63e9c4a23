//! To be filled: lifecycle.
