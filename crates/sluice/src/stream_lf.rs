//! `sluice stream-lf`: converts files of OpenVMS records to lines. A file that fails does not stop the next ones.

use std::path::Path;

use sluice_files::records::stream_lf::{ORIGINAL_SUFFIX, RewriteError, rewrite_path};
use sluice_settings::notation;
use sluice_settings::record_format::RecordFormat;

use crate::arguments::StreamLf;

/// Converts the files, and prints a line about each with `print`. The error has a line about each file that was not converted; the user's to fix.
pub(crate) fn run(arguments: &StreamLf, print: fn(&str) -> Result<(), String>) -> Result<(), String> {
    let mut errors = Vec::new();
    for file in &arguments.files {
        match convert(file, arguments.format) {
            Ok(line) => print(&line)?,
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

fn convert(file: &Path, format: RecordFormat) -> Result<String, String> {
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
        Err(RewriteError::System(what, error)) => Err(format!("{shown}: cannot {what}: {}", notation::reason(&error))),
        Err(RewriteError::Malformed(malformed)) => Err(format!(
            "{shown}: {malformed}: not a file of {format} records, or damaged; it stays as it is"
        )),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}
