//! The program that runs: a script's own file, or an engine that runs many scripts.
//!
//! ```text
//!   script ─── stamp             one script: its file, its engine, and their versions
//!     └─ engine                  the programs that run many scripts
//!          ├─ engine_trial       starting each once, for `check`
//!          ├─ search_path        where they are
//!          ├─ python_modules     applications that are installed
//!          └─ source_files       changes that replace kept processes
//! ```

pub mod engine;
pub mod engine_trial;
pub mod python_modules;
pub(crate) mod script;
pub mod search_path;
pub(crate) mod source_files;
pub mod stamp;
