//! The directories, programs and engines that a server goes on without, for `status`: those that are still missing.

use std::path::PathBuf;

use sluice_launch::deadline;
use sluice_settings::source::Source;

/// The directories, programs and engines that were missing when a configuration was read.
pub(super) struct Lacks {
    /// The configuration, and the files that it was read from.
    pub(super) file: PathBuf,
    pub(super) source: Source,
    /// A line about each.
    pub(super) lines: Vec<String>,
}

impl Lacks {
    /// Reads the configuration again, from the same files, to see what is missing now. If that fails, it is what was missing before.
    pub(super) async fn now(self) -> Vec<String> {
        let Lacks { file, source, lines } = self;
        let read = move || {
            let mut found = Vec::new();
            deadline::with_deadline(|| {
                deadline::expect_silence(&source.silent());
                // The faults of this reading are those of the settings in force, which have them already.
                let source = source.tolerant();
                let read = sluice_config::load_from(&file, &source, |line| found.push(line.to_owned()));
                read.is_ok().then_some(found)
            })
        };
        let found = tokio::task::spawn_blocking(read).await.ok().flatten();
        let Some(mut found) = found else { return lines };
        for line in found.iter_mut().filter(|line| !lines.contains(line)) {
            // What was open then may still be in use.
            let lack = line.rsplit_once("; ").map_or(line.as_str(), |(lack, _)| lack);
            *line = format!("{lack}; it was there when the configuration was read");
        }
        found
    }
}
