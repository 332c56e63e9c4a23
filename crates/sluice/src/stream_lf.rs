//! `sluice stream-lf`: files of VMS records written anew as lines, one after the other, whatever becomes of the one before.
//!
//! Not here: how a file is written anew (`sluice_server::record_format`).

use std::path::Path;

use sluice_files::records::stream_lf::{ORIGINAL_SUFFIX, RewriteError, rewrite_path};
use sluice_settings::record_format::RecordFormat;

use crate::arguments::StreamLf;
use crate::{config, print};

/// Writes the files anew, and tells of each that was.
///
/// # Errors
/// A line about each file that stays as it is; the user's to mend.
pub(crate) fn run(arguments: &StreamLf) -> Result<(), String> {
    let mut complaints = Vec::new();
    for file in &arguments.files {
        match write_anew(file, arguments.format) {
            Ok(told) => print(&told)?,
            Err(complaint) => complaints.push(complaint),
        }
    }
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(complaints.join("\n"))
    }
}

fn write_anew(file: &Path, format: RecordFormat) -> Result<String, String> {
    let shown = file.display();
    match rewrite_path(file, format) {
        Ok(rewritten) => {
            let records = match rewritten.records {
                1 => "1 line".to_owned(),
                records => format!("{records} lines"),
            };
            Ok(format!(
                "{shown}: {records}; the original is {shown}{ORIGINAL_SUFFIX}\n"
            ))
        }
        Err(RewriteError::System(what, error)) => Err(format!("{shown}: cannot {what}: {}", config::reason(&error))),
        Err(RewriteError::Malformed(malformed)) => Err(format!(
            "{shown}: {malformed}: not a file of {format} records, or damaged; it stays as it is"
        )),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}
