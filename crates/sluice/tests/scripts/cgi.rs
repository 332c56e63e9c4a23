//! CGI: a process for each request (RFC 3875).
//!
//! Submodules: the variables of a script (`variables`), which file a path runs and how (`programs`), what replies mean
//! (`replies`), request and response bodies (`bodies`), bodies that are stored first (`stored_bodies`), and how processes
//! end (`ends`).

mod bodies;
mod ends;
mod programs;
mod replies;
mod stored_bodies;
mod variables;
