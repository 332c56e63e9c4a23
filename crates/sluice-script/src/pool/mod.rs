//! The pools: which request gets which process, and how many there are.
//!
//! ```text
//!   pools ── shared_pool ── pure        the pools of a route; one of them; its decisions, without effects
//!     │        ├─ lease                 the right to one process (idle_process)
//!     │        ├─ pool_note             what WATCH shows of a request that asks for one
//!     │        └─ recent_scripts        what a process of an engine has run; client_id: whose requests it counts
//!     ├─ process_limit                  bounds that pools share; default_processes
//!     └─ pool_record                    what outlives a pool
//! ```

pub(crate) mod client_id;
pub(crate) mod default_processes;
pub(crate) mod idle_process;
pub(crate) mod lease;
pub(crate) mod pool_note;
pub(crate) mod pool_record;
pub mod pools;
pub(crate) mod process_limit;
pub(crate) mod pure;
pub(crate) mod recent_scripts;
pub(crate) mod shared_pool;
