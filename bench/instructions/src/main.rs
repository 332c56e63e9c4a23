//! Counts the instructions that a server executes in user mode for each request, and prints them as JSON.
//!
//! The processor's own counters are hidden in most virtual machines. This program steps all threads of the server one instruction after the
//! other instead (ptrace(2)), which needs nothing but the permission to trace, and some ten milliseconds for each request. A client in this program sends the
//! requests. Each counts from its arrival until all threads are asleep again, so what a connection or the start costs is not counted.
//!
//! It reads the registers of x86-64; on other processors it says so and fails. Not here: the servers and the table
//! (bench/sluicebench/instructions).
//!
//! ```sh
//! target/demo/instructions --pid 4711 --client http1 --address 127.0.0.1:8080 --path / --requests 20 --profile 30
//! ```

#[cfg(target_arch = "x86_64")]
mod count;

/// The exit status if a request that was stepped has had no reply (EX_TEMPFAIL, sysexits.h).
#[cfg(target_arch = "x86_64")]
const NO_REPLY: u8 = 75;

#[cfg(target_arch = "x86_64")]
fn main() -> std::process::ExitCode {
    use std::io::Write as _;

    let Err(failure) = count::main() else {
        return std::process::ExitCode::SUCCESS;
    };
    // If standard error is closed, the exit status says it.
    let _ = writeln!(std::io::stderr(), "{failure}");
    match failure.is::<count::NoReply>() {
        true => NO_REPLY.into(),
        false => std::process::ExitCode::FAILURE,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn main() -> Result<(), &'static str> {
    Err("instructions are counted on x86-64 only")
}
