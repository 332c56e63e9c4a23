//! The memory that a process has for itself: what grows when it leaks.
//!
//! The launcher reads it. A thread that may be lost asks for it, because somebody can hold the directory of the process below `/proc`.

use std::time::Duration;

use sluice_launch::{LookupShare, look_elsewhere};
use tokio::time::sleep;

use crate::process::script_process::Process;

/// How long a process waits for its measurement. It goes on without it then.
const MEASURING_MAX: Duration = Duration::from_secs(1);

/// The memory of a process (`ProcessUsage::private_bytes`). `None` also if the kernel does not answer in time.
pub(crate) async fn measure(process: &Process) -> Option<u64> {
    let probe = process.probe.clone();
    let measured = look_elsewhere(LookupShare::processes_of(process.user), move || probe.usage(false));
    Some(measured.within(sleep(MEASURING_MAX)).await.ok()??.private_bytes)
}
