//! Callouts: what a script asks the server in the middle of its response, and the answers.
