//! Opening the logs again (SIGUSR1, `log reopen`): a log that cannot be opened keeps none of the others from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_settings::Settings;

use super::Role;
use super::report::Report;
use crate::path_checks::{PathChecks, SILENT};

/// The log files of the settings in force, each once.
struct LogFiles {
    of_server: BTreeSet<PathBuf>,
    of_sites: BTreeSet<PathBuf>,
    /// A line about each that a start has gone on without, which is not open, by its file.
    closed: BTreeMap<PathBuf, String>,
}

impl LogFiles {
    fn of(settings: &Settings) -> LogFiles {
        let of_server: BTreeSet<PathBuf> = settings.own_log_files().map(Path::to_owned).collect();
        let (mut of_sites, mut closed) = (BTreeSet::new(), BTreeMap::new());
        let tolerated = settings.source.tolerated().unwrap_or_default();
        for (site, file) in settings.site_log_files().filter(|(_, file)| !of_server.contains(*file)) {
            match tolerated.line(&site.log_fault()) {
                Some(line) => drop(closed.insert(file.to_owned(), line)),
                None => drop(of_sites.insert(file.to_owned())),
            }
        }
        LogFiles { of_server, of_sites, closed }
    }
}

impl Role<'_> {
    /// Opens the logs again. A file that cannot be opened stays open under its new name. That of a site is an error in the log and in the answer and no
    /// failure of the command: a program such as logrotate would do nothing more for the other files then.
    pub(super) async fn reopen_logs(&self, report: &mut Report) {
        let LogFiles { of_server, of_sites, closed } = LogFiles::of(&self.settings);
        let mut silent = BTreeSet::new();
        let of_server = failures(of_server, &mut silent).await;
        let of_sites = failures(of_sites, &mut silent).await;
        if !self
            .settings
            .server_log
            .file
            .as_ref()
            .is_some_and(|file| silent.contains(file))
        {
            self.logger.reopen();
        }
        self.server.reopen_logs(silent);
        self.server
            .note_faults("logs", of_server.iter().chain(&of_sites).cloned().collect());
        of_sites.iter().for_each(|line| report.error(line));
        closed.values().for_each(|line| report.warn(line));
        match (of_server.is_empty(), of_sites.is_empty()) {
            (false, _) => report.fail(&of_server.join("\n")),
            (true, false) => report.info("the other logs are opened again"),
            (true, true) => report.info("the logs are opened again"),
        }
    }
}

/// A line about each file that cannot be opened. Those without an answer are added to `silent`: the thread of their log would wait, too, and then write
/// to none.
async fn failures(files: BTreeSet<PathBuf>, silent: &mut BTreeSet<PathBuf>) -> Vec<String> {
    let files: Arc<[PathBuf]> = files.into_iter().collect();
    let checked = PathChecks::new(Arc::clone(&files), sluice_log::check_open)
        .round()
        .await;
    let failed = files.iter().zip(checked).filter_map(|(file, checked)| match checked {
        Some(opened) => Some(cannot_open(file, &opened.err()?)),
        None => {
            silent.insert(file.clone());
            Some(cannot_open(file, &SILENT))
        }
    });
    failed.collect()
}

fn cannot_open(path: &Path, error: &dyn Display) -> String {
    format!("log {}: {error}; the file opened before stays in use", path.display())
}
