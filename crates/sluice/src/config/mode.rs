//! How the modes of scripts differ in the configuration: one entry for each mode.

use sluice_settings::Mode;

/// A mode of scripts.
pub(crate) struct ModeEntry {
    /// As the settings name it.
    pub(crate) mode: Mode,
    /// As the key `mode` names it.
    pub(crate) name: &'static str,
    /// Whether a process stays for further requests.
    pub(crate) keeps_process: bool,
}

pub(crate) const CGI: ModeEntry = ModeEntry {
    mode: Mode::Cgi,
    name: "cgi",
    keeps_process: false,
};

pub(crate) const CGIPLUS: ModeEntry = ModeEntry {
    mode: Mode::Cgiplus,
    name: "cgiplus",
    keeps_process: true,
};

/// The entry of a mode.
pub(crate) fn entry(mode: Mode) -> ModeEntry {
    match mode {
        Mode::Cgi => CGI,
        Mode::Cgiplus => CGIPLUS,
    }
}
