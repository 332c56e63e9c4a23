//! The command line of `sluice workout`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, FromArgMatches, ValueEnum};
use sluice_settings::notation;

const HELP: &str = "\
One request for each path comes before the clock starts; every later reply is compared with that one: its status, its length and its \
body. The exit status is 1 if a reply differed, if a request got no reply, or if nothing was measured. Ctrl-C ends the run and prints \
what was measured until then.

The client is this one process. On the machine of the server it takes processor time from the server; the report says how much it \
used, and whether it was the limit.

Examples:
  sluice workout http://127.0.0.1:8080/                             1,000 requests over 10 connections
  sluice workout http://127.0.0.1:8080/ -p /a.txt -p /cgi-bin/b     two paths in rotation
  sluice workout http://127.0.0.1:8080/ -c 64 -n 100000 --threads 2
  sluice workout https://localhost:8443/ --insecure --http2 -d 10s
  sluice workout http://localhost/ --unix /run/sluice/web.sock
  sluice workout http://127.0.0.1:8080/cgiplus-bin/count --compare status";

/// Connections at most: each one is a descriptor here and one in the server.
const CONNECTIONS_MAX: u64 = 10_000;

const THREADS_MAX: u64 = 256;

/// `sluice workout`.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Workout {
    /// The URL to request. Several URLs of one server are requested in rotation.
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    /// Another path of that server, with its query; may be repeated. With -p the path `/` of a URL is not requested by itself.
    #[arg(short, long, value_name = "PATH")]
    pub(super) path: Vec<String>,
    /// Concurrent connections; each has one request under way at a time.
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = number(CONNECTIONS_MAX))]
    pub(super) connections: usize,
    /// Requests in all.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) requests: u64,
    /// Send requests for this long (10s, 2m) instead of a number of them.
    #[arg(short, long, value_name = "TIME", conflicts_with = "requests", value_parser = parse_time)]
    pub(super) duration: Option<Duration>,
    /// Threads of this client, which share the connections.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = number(THREADS_MAX))]
    pub(super) threads: usize,
    /// Open a new connection for each request.
    #[arg(long)]
    pub(super) no_keep_alive: bool,
    /// Use HTTP/2: over TLS if the server agrees to it, in clear text with prior knowledge.
    #[arg(long)]
    pub(super) http2: bool,
    /// The method of the requests [default: GET, or POST with a body].
    #[arg(long)]
    pub(super) method: Option<String>,
    /// A field of the requests; may be repeated.
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(super) header: Vec<String>,
    /// Send this file as the body of each request.
    #[arg(long, value_name = "FILE")]
    pub(super) body: Option<PathBuf>,
    /// The part that must be the same in all replies for a path. `length` is for replies that contain a time or a counter, `status` for those of any length.
    #[arg(long, value_enum, default_value_t)]
    pub(super) compare: Comparison,
    /// Measure error pages too: without this, a first reply with a status of 400 or more ends the run.
    #[arg(long)]
    pub(super) any_status: bool,
    /// Break the connection off in the middle of each N-th reply on purpose.
    #[arg(long = "break", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) break_every: Option<u64>,
    /// The longest wait for one reply.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub(super) timeout: Duration,
    /// Connect to this unix socket; the URL then gives only the Host field and the path.
    #[arg(long, value_name = "SOCKET")]
    pub(super) unix: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long)]
    pub(super) insecure: bool,
    /// Trust the authorities in this PEM file instead of those of the system.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(super) ca: Option<PathBuf>,
}

/// The parts of a reply that must be the same as in the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, ValueEnum)]
pub(crate) enum Comparison {
    /// The status.
    Status,
    /// Status and length.
    Length,
    /// Status, length and every byte of the body.
    #[default]
    Body,
}

impl Workout {
    /// A command line with a URL, a number of connections and a time, and otherwise the usual values.
    pub(crate) fn for_time(url: &str, connections: usize, time: Duration) -> Result<Workout, String> {
        let line = Workout::augment_args(clap::Command::new("workout")).try_get_matches_from(["workout", url]);
        let usual = line.and_then(|matches| Workout::from_arg_matches(&matches));
        Ok(Workout {
            connections,
            duration: Some(time),
            ..usual.map_err(|error| error.to_string())?
        })
    }
}

/// The parser of a number from 1.
fn number(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Parses a time such as `10s`; a bare number is a mistake.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let time = notation::parse_duration(text)?;
    match time.is_zero() {
        true => Err("must be longer than nothing".to_owned()),
        false => Ok(time),
    }
}
