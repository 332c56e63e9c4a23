//! The owners of the paths that lead to served directories and to logs: whoever owns a link or a directory on such a path chooses what is served there, or written.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sluice_launch::{deadline, first_part_of_another};
use sluice_settings::Settings;
use sluice_settings::permission::Subject;

/// Warnings about links and directories on the paths of the configuration that belong neither to root, nor to the server's user, nor to the owner of
/// the directory that the path leads to. The server follows such a path wherever it leads, while it runs, too.
pub(crate) fn warnings(settings: &Settings, server: &Subject) -> Vec<String> {
    let mut warnings = BTreeSet::new();
    for (origin, path) in settings.served_directories() {
        if let Some((part, owner)) = part_of_another(path, server) {
            warnings.insert(format!(
                "{origin}: {} belongs to user {owner}, who can have {} lead to any directory that the server can read, and it is served at once, \
                 without a reload: give it to root (chown -h root), or name a directory of that user",
                part.display(),
                path.display()
            ));
        }
    }
    warnings.into_iter().collect()
}

/// Warnings about links and directories on the paths of the server's own logs that belong neither to root nor to the user of the server.
pub(crate) fn log_warnings(settings: &Settings, server: u32) -> Vec<String> {
    let is_stream = |file: &Path| file.starts_with("/dev") || file.starts_with("/proc");
    let files: BTreeSet<&Path> = settings.own_log_files().filter(|file| !is_stream(file)).collect();
    let warning = |file: &Path| {
        let (asked, shown) = (file.to_owned(), file.display());
        let (part, owner) = deadline::ask(file, move || first_part_of_another(&asked, &[0, server])).ok()??;
        Some(format!(
            "log {shown}: {} belongs to user {owner}, who can read the log, and have a link, a FIFO or another file in its place: give it to root \
             (chown -h root), or name a file in a directory of root or of the server's user",
            part.display()
        ))
    };
    files.into_iter().filter_map(warning).collect()
}

/// The first link or directory on a path to a directory with another owner, and its number. `None` for a path that leads nowhere.
fn part_of_another(path: &Path, server: &Subject) -> Option<(PathBuf, u32)> {
    let trusted = [0, server.uid(), deadline::metadata(path).ok()?.uid()];
    let asked = path.to_owned();
    deadline::ask(path, move || first_part_of_another(&asked, &trusted)).ok()?
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn a_link_of_another_user_than_the_owner_of_its_target_is_named() {
        if !sluice_launch::is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let server = Subject::new(
            sluice_launch::Credentials { uid: 64_001, gid: 64_001, groups: Vec::new() },
            "server",
        );
        for name in ["of-root", "of-user", "of-user/below"] {
            fs::create_dir(path(name)).unwrap();
        }
        symlink("of-root", path("link")).unwrap();
        assert_eq!(part_of_another(&path("link"), &server), None);
        lchown(path("link"), Some(64_011), None).unwrap();
        assert_eq!(part_of_another(&path("link"), &server), Some((path("link"), 64_011)));
        assert_eq!(part_of_another(&path("missing"), &server), None);
        // A link of root to one of the user.
        symlink("link", path("first")).unwrap();
        symlink("of-root/../first", path("second")).unwrap();
        assert_eq!(part_of_another(&path("second"), &server), Some((path("link"), 64_011)));
        // A directory below one of another user, who can rename it.
        lchown(path("of-user"), Some(64_011), None).unwrap();
        assert_eq!(
            part_of_another(&path("of-user/below"), &server),
            Some((path("of-user"), 64_011))
        );
        lchown(path("of-user/below"), Some(64_011), None).unwrap();
        assert_eq!(part_of_another(&path("of-user/below"), &server), None);
        lchown(path("link"), Some(64_001), None).unwrap();
        assert_eq!(part_of_another(&path("link"), &server), None);
    }
}
