//! The key `watch` of `[[site.route]].script`: files whose changes replace kept processes.

use std::path::PathBuf;

use super::document::At;
use super::file_kind::FileKind;
use super::key::{Key, set};
use super::script_draft::Draft;
use super::table::Written;

pub(super) const WATCH: Key<Draft> = Key::texts("watch", |script, paths, written| {
    set(&mut script.settings.reload_on, read_watch(paths, written))
});

/// Files and directories, which must exist.
fn read_watch(paths: Vec<At<String>>, written: &Written<'_>) -> Vec<PathBuf> {
    let document = written.document();
    let mut watched = Vec::new();
    for path in paths {
        if path.value.is_empty() || path.value.contains('\0') {
            document.report(
                path.line,
                "watch: needs the path of a file or directory, as in \"lib\"".to_owned(),
            );
            continue;
        }
        let file = document.resolve(path.line, &path.value);
        match (document.inspect)(&file) {
            FileKind::Missing(reason) => {
                let message = format!(
                    "watch: no file or directory {} ({reason}): create it or fix the path",
                    file.display()
                );
                document.report(path.line, message);
            }
            FileKind::Denied(reason) => document.report(path.line, format!("watch: {}: {reason}", file.display())),
            FileKind::Directory | FileKind::Program | FileKind::File | FileKind::Other => {}
        }
        watched.push(file);
    }
    watched
}
