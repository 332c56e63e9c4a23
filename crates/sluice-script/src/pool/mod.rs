//! The pools: which request gets which process, and how many there are.
//!
//! ```text
//!   pools ── shared_pool ── pure        the pools of a route; one of them; its decisions, without effects
//!     │        ├─ lease                 the right to one process (idle_process)
//!     │        ├─ pool_note             what WATCH shows of a request that asks for one
//!     │        └─ recent_scripts        what a process of an engine has run; and whose requests it counts
//!     ├─ process_limit                  bounds that pools share; default_processes
//!     └─ pool_record                    what outlives a pool
//! ```

mod default_processes;
mod idle_process;
mod lease;
mod pool_note;
pub(crate) mod pool_record;
pub mod pools;
mod process_limit;
mod pure;
mod recent_scripts;
mod shared_pool;

pub(crate) use default_processes::default_processes;
pub(crate) use idle_process::{IdleProcess, IdleProcesses, take_idle};
pub(crate) use lease::Lease;
pub(crate) use pool_note::{PoolNote, note_use, release_text};
pub(crate) use pool_record::{PoolLabel, PoolRecord, PoolRecords, RareCount, ReportedPool, Retired, milliseconds};
pub(crate) use pools::Pools;
pub(crate) use process_limit::{Member, Permit, PoolLimits, ProcessLimit};
pub(crate) use pure::{
    Action, Applicant, Career, Claim, Decision, Idle, Need, Pool, PoolView, ProcessId, Refusal, Release, Room,
    SlotView, Ticket, TimeUse, Trial,
};
pub(crate) use recent_scripts::{ClientId, RecentScripts, ScriptId};
pub(crate) use shared_pool::{Removal, SharedPool};
