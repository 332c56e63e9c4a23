//! Facts about the program that it has set in the server, for the reports.

use std::path::PathBuf;
use std::sync::OnceLock;

use arc_swap::{ArcSwap, ArcSwapOption};
use sluice_log::LogSource;
use sluice_report::configuration::Configuration;
use sluice_settings::Settings;

#[derive(Default)]
pub(crate) struct Described {
    /// The main configuration file. `None` if the command line says everything.
    pub configuration_file: Option<String>,
    pub configuration: ArcSwap<Configuration>,
    /// The file with a rating of the machine, once the program has named it.
    pub rating_file: OnceLock<PathBuf>,
    /// The place of the lines of the server log, once the program has named it.
    pub server_log: ArcSwapOption<LogSource>,
}

impl Described {
    pub(crate) fn of(settings: &Settings) -> Described {
        let shown = |file: &PathBuf| file.display().to_string();
        Described {
            configuration_file: settings.config_files.first().map(shown),
            ..Described::default()
        }
    }
}
