//! `[[site.route]].script` while it is read: what the keys of several files set.

use std::path::PathBuf;

use sluice_settings::{Mode, PoolSettings, ScriptSettings, ScriptSource};

use super::document::At;

/// `[[site.route]].script` while it is read.
pub(super) struct Draft {
    /// The source is not final before the end.
    pub(super) settings: ScriptSettings,
    pub(super) directory: Option<PathBuf>,
    pub(super) file: Option<At<PathBuf>>,
    pub(super) is_mode_known: bool,
}

impl Draft {
    pub(super) fn new() -> Draft {
        Draft {
            settings: ScriptSettings::cgi(ScriptSource::Root),
            directory: None,
            file: None,
            is_mode_known: false,
        }
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.is_mode_known = true;
        self.settings.mode = mode;
        // The keys of the pool come later in the list, and change these defaults.
        self.settings.pool = PoolSettings::new(mode);
    }
}
