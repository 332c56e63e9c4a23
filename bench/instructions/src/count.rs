//! The command line, the requests one after the other, and the figure for one of them. Not here: stepping (tracees.rs).

mod client;
mod clock;
mod http2;
mod space;
mod thread;
mod tracees;

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread as threads;

use clap::Parser;
use nix::unistd::Pid;
use serde::Serialize;

use self::client::{Client, Kind, Target};
use self::tracees::{Counts, Tracees};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A request that was stepped has had no reply: with the server's threads. Others may have stood in the way, so the count can be made again.
#[derive(Debug)]
pub(crate) struct NoReply(String);

impl fmt::Display for NoReply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = client::WAIT.as_secs();
        write!(out, "no reply within {seconds} s; the server's threads:\n{}", self.0)
    }
}

impl Error for NoReply {}

/// Counts the instructions that a server executes for each request.
#[derive(Debug, Parser)]
struct Arguments {
    /// A process of the server; several times for several.
    #[arg(long = "pid", required = true)]
    pids: Vec<i32>,
    /// How the client speaks.
    #[arg(long, value_enum)]
    client: Kind,
    /// Where the server listens.
    #[arg(long)]
    address: SocketAddr,
    /// The path that is requested.
    #[arg(long)]
    path: String,
    /// Requests of HTTP/2 that are sent at once.
    #[arg(long, default_value_t = 1)]
    in_flight: u32,
    /// The server's certificate (PEM), for TLS.
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// Requests before the counted ones, at full speed.
    #[arg(long, default_value_t = 200)]
    warm_up: u32,
    /// Requests that are stepped before the counted ones, because the first ones follow interrupted waits.
    #[arg(long, default_value_t = 1)]
    stepped_first: u32,
    /// Requests that are counted (of those in flight at once: so often all of them).
    #[arg(long, default_value_t = 30)]
    requests: u32,
    /// So many functions with the most instructions of their own are named.
    #[arg(long, default_value_t = 0)]
    profile: usize,
}

/// The printed figures.
#[derive(Debug, Serialize)]
struct Report {
    /// Instructions of one request: the mean of the middle half.
    instructions: f64,
    allocations: f64,
    copied: f64,
    /// Instructions of each of the counted requests.
    each: Vec<u64>,
    /// Instructions that were executed because time had passed, of all of them.
    by_the_clock: u64,
    /// Functions, and the instructions of each for one request.
    profile: Vec<(String, f64)>,
}

/// Counts as the command line says, and prints the figures.
pub(crate) fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let report = count(&arguments)?;
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, &report)?;
    Ok(writeln!(output)?)
}

fn count(arguments: &Arguments) -> Result<Report, Failure> {
    let target = Target {
        kind: arguments.client,
        address: arguments.address,
        path: arguments.path.clone(),
        in_flight: arguments.in_flight,
        certificate: arguments.certificate.clone(),
    };
    let mut client = Client::connect(&target)?;
    for answered in 0..arguments.warm_up {
        client
            .exchange()
            .map_err(|failure| format!("{failure}, after {answered} requests at full speed"))?;
    }
    let (go, wanted) = channel();
    let (results, done) = channel();
    threads::spawn(move || serve_requests(client, &wanted, &results));
    let pids: Vec<Pid> = arguments.pids.iter().map(|pid| Pid::from_raw(*pid)).collect();
    let mut tracees = Tracees::attach(&pids)?;
    tracees.run_until(|| Ok(true))?;
    for _ in 0..arguments.stepped_first {
        exchange(&mut tracees, &go, &done)?;
    }
    tracees.clear_profile();
    let counts = (0..arguments.requests)
        .map(|_| exchange(&mut tracees, &go, &done))
        .collect::<Result<Vec<Counts>, Failure>>()?;
    let report = report(arguments, &counts, &tracees);
    tracees.detach()?;
    Ok(report)
}

/// The client's thread: an exchange for each order.
fn serve_requests(mut client: Client, wanted: &Receiver<()>, results: &Sender<Result<(), Failure>>) {
    while wanted.recv().is_ok() {
        if results.send(client.exchange()).is_err() {
            return;
        }
    }
}

/// Counts what the server executes for the requests that are in flight at once.
fn exchange(tracees: &mut Tracees, go: &Sender<()>, done: &Receiver<Result<(), Failure>>) -> Result<Counts, Failure> {
    tracees.take_counts();
    go.send(())?;
    let mut is_answered = false;
    let end = tracees.run_until(|| {
        match done.try_recv() {
            Ok(result) => {
                result?;
                is_answered = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err("the client has ended".into()),
        }
        Ok(is_answered)
    });
    end.map_err(|failure| match failure.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == ErrorKind::WouldBlock => NoReply(tracees.describe()).into(),
        _ => failure,
    })?;
    Ok(tracees.take_counts())
}

fn report(arguments: &Arguments, counts: &[Counts], tracees: &Tracees) -> Report {
    let in_flight = f64::from(arguments.in_flight);
    let typical = |of: fn(&Counts) -> u64| middle_mean(counts.iter().map(of).collect()) / in_flight;
    let all = f64::from(arguments.requests) * in_flight;
    let mut functions: Vec<(String, f64)> = Vec::new();
    if arguments.profile > 0 {
        functions.extend(
            tracees
                .profile()
                .into_iter()
                .map(|(name, count)| (name, float(count) / all)),
        );
        functions.sort_by(|(_, left), (_, right)| right.total_cmp(left));
        functions.truncate(arguments.profile);
    }
    Report {
        instructions: typical(|counts| counts.instructions),
        allocations: typical(|counts| counts.allocations),
        copied: typical(|counts| counts.copied),
        each: counts.iter().map(|counts| counts.instructions).collect(),
        by_the_clock: counts.iter().map(|counts| counts.by_the_clock).sum(),
        profile: functions,
    }
}

/// The mean of the values without the smallest and the largest quarter.
///
/// A median would hide work that every second request has; a mean would contain what happens once a second.
fn middle_mean(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    let quarter = values.len() / 4;
    let middle = &values[quarter..values.len() - quarter];
    float(middle.iter().sum()) / float(middle.len().max(1) as u64)
}

/// A count as a number with fractions; counts here are far below 2^52.
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::middle_mean;

    #[test]
    fn the_smallest_and_the_largest_quarter_do_not_count() {
        assert!((middle_mean(vec![9, 10, 1000, 11]) - 10.5).abs() < 1e-9);
        assert!((middle_mean(vec![7]) - 7.0).abs() < 1e-9);
    }
}
