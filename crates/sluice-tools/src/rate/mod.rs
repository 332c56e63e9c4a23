//! `sluice rate`: describes this machine and rates it, as average, minimum and maximum of several samples.
//!
//! After WASD, whose author publishes the VUPs of a machine (an average with minimum and maximum) beside every measurement. The exercises
//! are fixed, so that two ratings by the same version of the program can be compared.

mod exercises;
mod machine;

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;
use sluice_report::machine::{Exercise, Rating};
use sluice_report::text::number;
use sluice_settings::{ListenAddress, notation};

use crate::workout::parse_time;

const HELP: &str = "\
Each exercise is repeated, and takes as long each time:

  processor  SHA-256 by one thread, in megabytes a second
  files      requests a second for an empty file, over 10 connections that are kept open
  cgi        requests a second for a CGI script of /bin/sh, over 10 connections: a process is started for each

Client and server of the last two share the machine, in this one process. Let the machine be quiet otherwise. The figures depend on the \
version of this program, so compare those of one version only.";

/// `sluice rate`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Rate {
    /// Samples of each exercise.
    #[arg(long, value_name = "N", default_value = "5")]
    samples: NonZeroUsize,
    /// The time of a sample.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    time: Duration,
}

/// The program that is rated together with the machine: how it serves, and where it keeps a rating.
pub trait Program {
    /// The workers of its server.
    fn workers(&self) -> NonZeroUsize;

    /// Serves the directory `site` on a port of the loopback interface, with this access log, while `exercise` runs, which gets the address.
    ///
    /// # Errors
    /// One line: the server cannot be started; or the error of the exercise.
    fn serve(&self, site: &Path, access_log: &Path, exercise: &mut Exercising<'_>) -> Result<(), String>;

    /// Keeps a rating where a server of this user finds it.
    ///
    /// # Errors
    /// One line: it cannot be written.
    fn keep(&self, rating: &Rating) -> Result<(), String>;
}

/// Exercises of a server with this address.
pub type Exercising<'a> = dyn FnMut(&ListenAddress) -> Result<(), String> + 'a;

/// Rates the machine and prints the result with `print`.
///
/// # Errors
/// One line: the server of the exercise cannot be started or fails, or Ctrl-C.
pub fn run(arguments: &Rate, program: &dyn Program, print: fn(&str) -> Result<(), String>) -> Result<(), String> {
    print(&format!("{}\n", machine::describe(program.workers())))?;
    let exercises = exercises::run(arguments.samples, arguments.time, program)?;
    print(&render(&exercises, arguments))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let rating = Rating {
        at: now.map_or(0, |since| since.as_secs()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        exercises,
    };
    // For the reports of a server of this user; without it the rating is printed all the same.
    if let Err(error) = program.keep(&rating) {
        tracing::debug!("the rating is not kept: {error}");
    }
    Ok(())
}

fn render(exercises: &[Exercise], arguments: &Rate) -> String {
    let mut out = format!("{:<12}{:>12}{:>12}{:>12}\n", "rating", "average", "minimum", "maximum");
    for row in exercises {
        let [average, minimum, maximum] = [row.average, row.minimum, row.maximum].map(whole);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{:<12}{average:>12}{minimum:>12}{maximum:>12}  {}",
            row.name, row.unit
        );
    }
    let samples = arguments.samples;
    let _ = writeln!(
        out,
        "{samples} samples of {} each",
        notation::format_duration(arguments.time)
    );
    out
}

fn whole(figure: f64) -> String {
    // Never negative, and far below 2^63.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let figure = figure.round() as u64;
    number(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_are_average_minimum_and_maximum() {
        let rated = [exercises::exercise("files", "requests/s", &[1000.0, 3000.0, 2000.4])];
        let arguments = Rate {
            samples: NonZeroUsize::new(3).expect("three"),
            time: Duration::from_millis(500),
        };
        assert_eq!(
            render(&rated, &arguments),
            "rating           average     minimum     maximum\n\
             files              2,000       1,000       3,000  requests/s\n\
             3 samples of 500ms each\n"
        );
    }
}
