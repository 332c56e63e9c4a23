//! The report of a run, as text with one subject a line, for people and for `awk`.

use std::fmt::Write;
use std::time::Duration;

use sluice_http::escape::Escaped;
use sluice_report::text::{counted, number};

use super::arguments::Comparison;
use super::client::Address;
use super::run::Measured;

/// The share of a thread's time, in per cent, from which on the client is probably what limits the rate.
const BUSY_PER_CENT: f64 = 85.0;

/// The shares of replies whose latency is shown, in thousandths.
const PERCENTILES: [(u64, &str); 4] = [(500, "50 %"), (900, "90 %"), (990, "99 %"), (999, "99.9 %")];

pub(crate) fn render(measured: &Measured) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_plan(&mut out, measured).and_then(|()| write_figures(&mut out, measured));
    let _ = write_paths(&mut out, measured).and_then(|()| write_problems(&mut out, measured));
    out
}

fn write_plan(out: &mut String, measured: &Measured) -> std::fmt::Result {
    let (plan, options) = (&measured.plan, &measured.plan.options);
    let server = match &measured.address {
        Address::Tcp(_) => plan.target.to_string(),
        Address::Unix(path) => format!("{} by {}", plan.target, path.display()),
    };
    let connections = connections(options.connections as u64);
    let kept = match options.no_keep_alive {
        false => ", kept open",
        true => " at a time, one for each request",
    };
    let threads = counted(options.threads as u64, "thread", "threads");
    let (server, protocol) = (Escaped(&server), plan.protocol);
    writeln!(out, "workout    {server}, {protocol}, {connections}{kept}, {threads}")?;
    let interrupted = if measured.is_interrupted { ", interrupted" } else { "" };
    writeln!(out, "time       {:.3} s{interrupted}", measured.elapsed.as_secs_f64())
}

fn write_figures(out: &mut String, measured: &Measured) -> std::fmt::Result {
    let tally = &measured.tally;
    let replies = tally.latencies.count();
    let different = tally.differences.total();
    let failed = tally.failures.total();
    let broken = match tally.broken {
        0 => String::new(),
        broken => format!(", {} broken off on purpose", number(broken)),
    };
    writeln!(
        out,
        "requests   {}: {} {}, {} different, {} failed{broken}",
        number(replies + failed + tally.broken),
        number(replies - different),
        match measured.plan.options.compare {
            Comparison::Body => "the same as the first",
            Comparison::Length => "with the status and length of the first",
            Comparison::Status => "with the status of the first",
        },
        number(different),
        number(failed),
    )?;
    // 2^53 bytes are eight petabytes.
    #[allow(clippy::cast_precision_loss)]
    let megabytes = tally.bytes as f64 / 1e6 / measured.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let rate = rounded(measured.rate());
    writeln!(out, "rate       {rate} requests/s, {megabytes:.3} MB/s of bodies")?;
    let (mean, shortest) = (millis(tally.latencies.mean()), millis(tally.latencies.shortest()));
    write!(out, "latency    mean {mean}, shortest {shortest}")?;
    for (share, name) in PERCENTILES {
        write!(out, ", {name} {}", millis(tally.latencies.per_mille(share)))?;
    }
    writeln!(out, ", longest {}", millis(tally.latencies.longest()))?;
    writeln!(out, "opened     {}", connections(tally.opened))?;
    write_client(out, measured)
}

/// The client's own cost, and whether it was the limit.
fn write_client(out: &mut String, measured: &Measured) -> std::fmt::Result {
    let Some(busiest) = measured.tally.processor.iter().max() else {
        return Ok(());
    };
    let used: Duration = measured.tally.processor.iter().sum();
    let share = 100.0 * busiest.as_secs_f64() / measured.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let share = share.min(100.0);
    write!(out, "client     {:.3} s of processor time", used.as_secs_f64())?;
    let threads = measured.plan.options.threads;
    match threads {
        1 => write!(out, ", busy for {share:.0} % of the run")?,
        _ => write!(out, ", its busiest thread for {share:.0} % of the run")?,
    }
    if share >= BUSY_PER_CENT {
        write!(out, ": the client may be the limit; try --threads {}", threads * 2)?;
    }
    writeln!(out)
}

fn write_paths(out: &mut String, measured: &Measured) -> std::fmt::Result {
    let paths = &measured.plan.target.paths;
    writeln!(out, "\n    replies  status          bytes  path")?;
    for ((path, first), replies) in paths.iter().zip(&measured.references).zip(&measured.tally.replies) {
        let status = first.status.as_u16();
        write!(
            out,
            "{:>11}  {status:>6}  {:>13}  {}",
            number(*replies),
            number(first.bytes),
            Escaped(path.as_str())
        )?;
        match measured.plan.options.compare == Comparison::Body && !first.is_whole() {
            true => writeln!(out, " (its beginning and its length were compared)")?,
            false => writeln!(out)?,
        }
    }
    Ok(())
}

fn write_problems(out: &mut String, measured: &Measured) -> std::fmt::Result {
    let tally = &measured.tally;
    for (title, kinds) in [("different", &tally.differences), ("failed", &tally.failures)] {
        if kinds.total() > 0 {
            writeln!(out, "\n{title}")?;
        }
        for (kind, count) in kinds.listed() {
            writeln!(out, "{:>11}  {}", number(count), Escaped(kind))?;
        }
    }
    if tally.given_up > 0 {
        let given_up = connections(tally.given_up);
        writeln!(out, "\nThe server could not be reached any more; {given_up} gave up.")?;
    }
    if tally.latencies.count() == 0 {
        writeln!(out, "\nNothing was measured.")?;
    }
    Ok(())
}

fn connections(count: u64) -> String {
    counted(count, "connection", "connections")
}

/// Milliseconds, to three digits or to the microsecond.
fn millis(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1000.0)
}

/// A rate as a whole number, or with one decimal if it is small.
fn rounded(rate: f64) -> String {
    if rate < 100.0 {
        return format!("{rate:.1}");
    }
    // At least 100 and far below 2^63.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = rate.round() as u64;
    number(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_as_many_digits_as_they_need() {
        assert_eq!([1.25, 99.94, 1234.4].map(rounded), ["1.2", "99.9", "1,234"]);
        assert_eq!(millis(Duration::from_micros(1234)), "1.234 ms");
    }
}
