//! Pools: how many processes a script has, who waits, who is refused, and when a process ends.
