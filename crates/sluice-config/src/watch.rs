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
    written.each(paths, |path, line| {
        if path.is_empty() || path.contains('\0') {
            return Err("watch: needs the path of a file or directory, as in \"lib\"".to_owned());
        }
        let file = document.resolve(line, path);
        let shown = file.display();
        let message = match document.kind(&file) {
            FileKind::Missing(reason) => {
                format!("watch: no file or directory {shown} ({reason}): create it or fix the path")
            }
            FileKind::Denied(reason) => format!("watch: {shown}: {reason}"),
            FileKind::Directory | FileKind::Program | FileKind::File | FileKind::Other => return Ok(file),
        };
        document.report_fault(line, &file, &message, "until it is there its changes are not noticed");
        Ok(file)
    })
}
