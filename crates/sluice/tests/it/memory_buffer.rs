//! The memory buffer: bulk output, plain and as a ring.
