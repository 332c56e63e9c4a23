//! CGI: a process for each request (RFC 3875).
//!
//! What a script is told (`variables`), which file a path runs and how (`programs`), what its replies mean (`replies`),
//! bodies on their way in and out (`bodies`), and how a process ends that is not left to itself (`ends`).

mod bodies;
mod ends;
mod programs;
mod replies;
mod variables;
