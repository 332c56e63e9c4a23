//! The exercises of a rating: a calculation, and a server of the program that is asked by a workout.

use std::fs::{self, Permissions};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use sluice_settings::{ListenAddress, notation};

use super::Program;
use crate::workout::{Amount, Plan, measure};

/// Connections of the client.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(10).expect("not zero");

/// Bytes of one calculation.
const BLOCK_BYTES: usize = 1 << 20;

/// The CGI script: a head and no body.
const SCRIPT: &str = "#!/bin/sh\necho \"Content-Type: text/plain\"\necho\n";

/// The samples of one exercise.
pub(super) struct Rated {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) samples: Vec<f64>,
}

/// Runs every exercise this often, for this long each time.
///
/// # Errors
/// One line: the server cannot be started, a request failed, or Ctrl-C.
pub(super) fn run(samples: NonZeroUsize, time: Duration, program: &dyn Program) -> Result<Vec<Rated>, String> {
    let directory = tempfile::Builder::new()
        .prefix("sluice-rate-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|error| format!("cannot make a temporary directory: {}", notation::reason(&error)))?;
    let directory = directory.path();
    write(directory).map_err(|error| format!("{}: {}", directory.display(), notation::reason(&error)))?;
    let mut rated = [
        ("processor", "MB/s of SHA-256, one thread"),
        ("files", "requests/s for an empty file, 10 connections"),
        ("cgi", "requests/s for a CGI script of /bin/sh, 10 connections"),
    ]
    .map(|(name, unit)| Rated {
        name,
        unit,
        samples: Vec::new(),
    });
    program.serve(&directory.join("site"), &directory.join("access.log"), &mut |address| {
        // In turn, so that a disturbance of the machine does not meet one exercise alone.
        for _ in 0..samples.get() {
            rated[0].samples.push(hash(time)?);
            rated[1].samples.push(rate(address, "/0k.txt", time)?);
            rated[2].samples.push(rate(address, "/cgi-bin/empty", time)?);
        }
        Ok(())
    })?;
    Ok(rated.into())
}

/// Megabytes of SHA-256 a second.
fn hash(time: Duration) -> Result<f64, String> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().ok_or("TLS: no SHA-256")?;
    let block: Vec<u8> = (0..=u8::MAX).cycle().take(BLOCK_BYTES).collect();
    let begin = Instant::now();
    let mut bytes = 0.0;
    while begin.elapsed() < time {
        std::hint::black_box(suite.common.hash_provider.hash(std::hint::black_box(&block)));
        // 2^20, exact.
        bytes += f64::from(1 << 20);
    }
    Ok(bytes / 1e6 / begin.elapsed().as_secs_f64())
}

/// Requests a second for a path of a server.
fn rate(address: &ListenAddress, path: &str, time: Duration) -> Result<f64, String> {
    let plan = Plan::of_url(&format!("http://{address}{path}"), CONNECTIONS, Amount::Time(time))?;
    let measured = measure(plan)?;
    match (measured.is_interrupted, measured.is_clean()) {
        (true, _) => Err("interrupted".to_owned()),
        (false, false) => Err(format!("{path}: some requests failed; the machine cannot be rated")),
        (false, true) => Ok(measured.rate()),
    }
}

/// Writes the file and the script.
fn write(directory: &Path) -> std::io::Result<()> {
    let programs = directory.join("site/cgi-bin");
    fs::create_dir_all(&programs)?;
    fs::write(directory.join("site/0k.txt"), "")?;
    let script = programs.join("empty");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))
}
