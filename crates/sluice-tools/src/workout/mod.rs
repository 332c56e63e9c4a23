//! `sluice workout`: sends the same requests again and again over several connections, and compares each reply with the first one.
//!
//! ```text
//! command line (`arguments`) ─▶ one server and its paths (`target`) ─▶ plan (`plan`)
//!                                                                        │
//!   the first reply of each path (`reference`), before the clock starts ◀┘
//!                     │
//!   thread 1 … n (`run`): an event loop with its connections (`client`) ─▶ tally (`tally`, `histogram`) ─▶ `report`
//! ```
//! After WASD's WWWRKOUT. A client, which knows nothing of this program's server. The rating of a machine (`rate`) uses `plan` and `run`.

mod arguments;
mod client;
mod histogram;
mod plan;
mod reference;
mod report;
mod run;
mod tally;
mod target;
mod tls;
mod turns;

use std::process::ExitCode;

pub use arguments::Workout;
pub(crate) use arguments::parse_time;
pub(crate) use plan::Plan;
pub(crate) use run::measure;

/// Runs a workout and prints its report with `print`. The exit status is that of a failure if a reply differed from the first one of its
/// path, if a request got no reply, or if nothing was measured.
///
/// # Errors
/// One line: the command line is wrong, or the first request of a path failed; the user's to fix.
pub fn run(arguments: &Workout, print: fn(&str) -> Result<(), String>) -> Result<ExitCode, String> {
    let plan = Plan::new(arguments.clone())?;
    let measured = measure(plan)?;
    print(&report::render(&measured))?;
    Ok(match measured.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
