//! The exercises of a rating: a calculation, and a server of the program that is asked by a workout.

use std::fs::{self, Permissions};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use sluice_report::machine::Exercise;
use sluice_settings::{ListenAddress, notation};

use super::Program;
use crate::workout::{Plan, Workout, measure};

const CONNECTIONS: usize = 10;

/// Bytes of one calculation.
const BLOCK_BYTES: usize = 1 << 20;

/// The CGI script: a head and no body.
const SCRIPT: &str = "#!/bin/sh\necho \"Content-Type: text/plain\"\necho\n";

const EXERCISES: [(&str, &str); 3] = [
    ("processor", "MB/s of SHA-256, one thread"),
    ("files", "requests/s for an empty file, 10 connections"),
    ("cgi", "requests/s for a CGI script of /bin/sh, 10 connections"),
];

/// Runs every exercise this often, for this long each time.
pub(super) fn run(samples: NonZeroUsize, time: Duration, program: &dyn Program) -> Result<Vec<Exercise>, String> {
    let directory = tempfile::Builder::new()
        .prefix("sluice-rate-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|error| format!("cannot make a temporary directory: {}", notation::reason(&error)))?;
    let directory = directory.path();
    write(directory).map_err(|error| format!("{}: {}", directory.display(), notation::reason(&error)))?;
    let mut rated: [Vec<f64>; 3] = Default::default();
    program.serve(&directory.join("site"), &directory.join("access.log"), &mut |address| {
        // In turn, so that a disturbance of the machine does not meet one exercise alone.
        for _ in 0..samples.get() {
            rated[0].push(hash(time)?);
            rated[1].push(rate(address, "/0k.txt", time)?);
            rated[2].push(rate(address, "/cgi-bin/empty", time)?);
        }
        Ok(())
    })?;
    let exercises = EXERCISES.iter().zip(&rated);
    Ok(exercises
        .map(|((name, unit), samples)| exercise(name, unit, samples))
        .collect())
}

/// Average, least and greatest of some samples.
pub(super) fn exercise(name: &str, unit: &str, samples: &[f64]) -> Exercise {
    // A few samples.
    #[allow(clippy::cast_precision_loss)]
    let count = samples.len().max(1) as f64;
    Exercise {
        name: name.to_owned(),
        unit: unit.to_owned(),
        average: samples.iter().sum::<f64>() / count,
        minimum: samples.iter().copied().fold(f64::MAX, f64::min),
        maximum: samples.iter().copied().fold(0.0, f64::max),
    }
}

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

fn rate(address: &ListenAddress, path: &str, time: Duration) -> Result<f64, String> {
    let options = Workout::for_time(&format!("http://{address}{path}"), CONNECTIONS, time)?;
    let measured = measure(Plan::new(options)?)?;
    match (measured.is_interrupted, measured.is_clean()) {
        (true, _) => Err("interrupted".to_owned()),
        (false, false) => Err(format!("{path}: some requests failed; the machine cannot be rated")),
        (false, true) => Ok(measured.rate()),
    }
}

fn write(directory: &Path) -> std::io::Result<()> {
    let programs = directory.join("site/cgi-bin");
    fs::create_dir_all(&programs)?;
    fs::write(directory.join("site/0k.txt"), "")?;
    let script = programs.join("empty");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))
}
