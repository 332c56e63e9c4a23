//! The page about the machine and the program. A thread reads the files of /proc.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_report::machine::{
    Engine, Hardware, Library, Machine, Program, ServerProcess, System, distribution, limits, processor_seconds,
};
use sluice_script::program::engine::missing_engines;
use sluice_settings::EngineSettings;

use crate::operator::reports::page::{Collected, Wanted, later};

/// The libraries that matter for faults and measurements; the build script finds their versions.
const LIBRARIES: [Library; 4] = [
    library("rustls", env!("SLUICE_RUSTLS"), "TLS"),
    library("aws-lc-rs", env!("SLUICE_AWS_LC_RS"), "cryptography"),
    library("hyper", env!("SLUICE_HYPER"), "HTTP"),
    library("tokio", env!("SLUICE_TOKIO"), "event loop"),
];

const fn library(name: &'static str, version: &'static str, purpose: &'static str) -> Library {
    Library { name, version, purpose }
}

pub(super) fn collect(wanted: &Wanted) -> Collected {
    let state = Arc::clone(&wanted.context.state);
    later(move || machine(state.rating_file.get().map(PathBuf::as_path)))
}

fn machine(rating: Option<&Path>) -> Machine {
    let usable = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Machine {
        hardware: Hardware::of(&read("/proc/cpuinfo"), &read("/proc/meminfo"), usable),
        system: System {
            distribution: distribution(&read("/etc/os-release")).to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            architecture: std::env::consts::ARCH,
            hostname: read("/proc/sys/kernel/hostname").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
        },
        limits: limits(&read("/proc/self/limits")),
        process: process(),
        program: Program {
            version: env!("CARGO_PKG_VERSION"),
            build: build(),
            libraries: LIBRARIES.into(),
        },
        engines: engines(),
        rating: rating.and_then(|file| serde_json::from_str(&fs::read_to_string(file).ok()?).ok()),
    }
}

pub(super) fn process() -> ServerProcess {
    ServerProcess {
        // The directory itself is open while it is read.
        descriptors: fs::read_dir("/proc/self/fd")
            .ok()
            .map(|entries| (entries.count() as u64).saturating_sub(1)),
        processor_seconds: processor_seconds(&read("/proc/self/stat")),
        ..ServerProcess::of(std::process::id(), &read("/proc/self/status"))
    }
}

fn build() -> String {
    let kind = if cfg!(debug_assertions) {
        "without optimisation, so not for measurements"
    } else {
        "for use"
    };
    format!("{kind}, by {}", env!("SLUICE_RUSTC"))
}

fn engines() -> Vec<Engine> {
    let own = sluice_settings::Engine::OWN.into_iter();
    own.map(|engine| {
        let name = engine.name().to_owned();
        let settings = EngineSettings { engine: Some(engine), ..EngineSettings::default() };
        let missing = missing_engines(&settings);
        Engine {
            name,
            problem: missing.first().map(ToString::to_string),
        }
    })
    .collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}
