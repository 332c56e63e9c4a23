//! `[[site.route]].files`: files of a directory.

use std::path::PathBuf;

use sluice_settings::record_format::RecordFormat;
use sluice_settings::{Convert, DirectorySettings, RecordSettings};

use super::directory::RouteDirectory;
use super::document::At;
use super::key::{Key, Section};
use super::table::{Table, require_star, set_directory};

/// The values of `record_format` with which files are sent as they are, besides those of fixed-length records.
const BYTE_FORMATS: [&str; 4] = ["stream", "stream_lf", "stream_cr", "undefined"];

/// `[[site.route]].files` while it is read.
#[derive(Default)]
pub(super) struct Draft {
    directory: Option<PathBuf>,
    format: Option<RecordFormat>,
    /// Whether `record_format` is one with which files are sent as they are.
    is_bytes: bool,
    convert: Convert,
    listing: Option<bool>,
}

impl Draft {
    /// `beside` is the directory that the route names beside this section. `None` without a directory; that has been reported.
    pub(super) fn finish(
        self,
        path: Option<&At<String>>,
        beside: RouteDirectory,
        table: &Table<'_>,
    ) -> Option<DirectorySettings> {
        let is_bytes = self.is_bytes || !table.has("record_format");
        if is_bytes && self.convert != Convert::Off {
            let message =
                "there are no records to convert: add record_format = \"variable\" or \"vfc\", or remove this";
            table.refuse("convert", message);
        }
        let directory = match (self.directory, beside) {
            (Some(_), RouteDirectory::Named(_)) => {
                table.refuse("directory", "the route has a directory already: keep one of them");
                return None;
            }
            (None, _) if table.has("directory") => return None,
            (None, beside @ (RouteDirectory::Wrong | RouteDirectory::Absent)) => {
                if matches!(beside, RouteDirectory::Absent) {
                    table.report_missing("directory");
                }
                return None;
            }
            (Some(directory), _) | (None, RouteDirectory::Named(directory) | RouteDirectory::BelowRoot(directory)) => {
                directory
            }
        };
        if let Some(path) = path {
            require_star(table.document, path, "files");
        }
        let convert = self.convert;
        Some(DirectorySettings {
            records: self.format.map(|format| RecordSettings { format, convert }),
            listing: self.listing,
            ..DirectorySettings::new(directory)
        })
    }
}

pub(super) static FILES: Section<Draft> = Section {
    title: "[[site.route]].files",
    keys: &[
        Key::path("directory", |files, path, written| {
            set_directory(&mut files.directory, path, written)
        }),
        Key::text("record_format", |files, text, _| {
            files.is_bytes = BYTE_FORMATS.contains(&text.as_str());
            if !files.is_bytes {
                // Records of one size have their newlines in their data, if at all (RMS, fixed-length records).
                match parse_format(&text)? {
                    RecordFormat::Fixed { .. } => files.is_bytes = true,
                    format => files.format = Some(format),
                }
            }
            Ok(())
        }),
        Key::choice(
            "convert",
            &[
                ("off", |files| files.convert = Convert::Off),
                ("cache", |files| files.convert = Convert::Cache),
                ("rewrite", |files| files.convert = Convert::Rewrite),
            ],
        ),
        Key::flag("listing", |files, is_listed| files.listing = Some(is_listed)),
    ],
};

fn parse_format(text: &str) -> Result<RecordFormat, String> {
    text.parse().map_err(|message| {
        format!(
            "{message}; \"stream\", \"stream_lf\", \"stream_cr\", \"undefined\" and \"fixed:80\" are sent unchanged"
        )
    })
}
