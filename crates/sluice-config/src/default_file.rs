//! The configuration file of a command without `-c`.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sluice_launch::deadline;
use sluice_settings::notation::reason;

/// The places where a configuration is looked for.
const PLACES: [&str; 2] = ["sluice.toml", "/etc/sluice/sluice.toml"];

/// The file that `-c` names, or else the first one that exists of `./sluice.toml` and `/etc/sluice/sluice.toml`.
///
/// # Errors
/// One line: there is no such file, or another user of the machine can write to it. The user's to fix.
pub fn choose_file(named: Option<&Path>) -> Result<PathBuf, String> {
    match named {
        Some(file) => Ok(file.to_owned()),
        None => deadline::with_deadline(|| find(&PLACES.map(Path::new), rustix::process::geteuid().as_raw())),
    }
}

/// The first of these files that exists.
fn find(places: &[&Path], user: u32) -> Result<PathBuf, String> {
    for file in places {
        match deadline::metadata(file) {
            Ok(about) => return check(file, &about, user).map(|()| (*file).to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(format!("{}: cannot be read: {}", file.display(), reason(&error))),
        }
    }
    let shown: Vec<String> = places.iter().map(|file| file.display().to_string()).collect();
    Err(format!(
        "there is no configuration: neither {}; name one with -c FILE, or serve a directory without one: sluice serve DIR",
        shown.join(" nor ")
    ))
}

/// Refuses a file that nobody named and that another user may have written or put there, as in `/tmp`: it says which programs are
/// run. The directory counts, because whoever can rename its files could do so between this check and the reading.
fn check(file: &Path, about: &Metadata, user: u32) -> Result<(), String> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let failed = |error: std::io::Error| format!("{}: cannot be read: {}", file.display(), reason(&error));
    let link = deadline::symlink_metadata(file).map_err(failed)?;
    let holder = deadline::metadata(directory).map_err(failed)?;
    let shown = file.display();
    for (owner, subject) in [
        (about, "belongs"),
        (&link, "is a link that belongs"),
        (&holder, "is in a directory that belongs"),
    ] {
        if owner.uid() != user && owner.uid() != 0 {
            return Err(format!(
                "{shown}: {subject} to another user (uid {}): if it is the right one, name it: -c {shown}",
                owner.uid()
            ));
        }
    }
    if about.mode() & 0o002 != 0 {
        return Err(format!(
            "{shown}: every user of this machine can write to it: chmod o-w {shown}"
        ));
    }
    // In a directory with the sticky bit, nobody can rename the files of others (inode(7)).
    if holder.mode() & 0o1002 == 0o002 {
        let directory = directory.display();
        return Err(format!(
            "{shown}: every user of this machine can replace it: chmod o-w {directory}, or name it: -c {shown}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_first_file_that_exists_is_taken() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (first, second) = (directory.path().join("a.toml"), directory.path().join("b.toml"));
        let user = directory.path().metadata().expect("a directory").uid();
        let places = [first.as_path(), second.as_path()];
        let message = find(&places, user).expect_err("no file");
        assert!(
            message.contains("a.toml nor ") && message.contains("-c FILE"),
            "{message}"
        );
        write(&second, "").expect("room for a file");
        assert_eq!(find(&places, user), Ok(second.clone()));
        write(&first, "").expect("room for a file");
        assert_eq!(find(&places, user), Ok(first.clone()));
    }

    #[test]
    fn a_file_that_another_user_may_have_written_is_not_taken() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("a.toml");
        write(&file, "").expect("room for a file");
        let user = file.metadata().expect("a file").uid();
        set_permissions(&file, Permissions::from_mode(0o666)).expect("a file of ours");
        let message = find(&[&file], user).expect_err("writable by others");
        assert!(message.ends_with(&format!("chmod o-w {}", file.display())), "{message}");
        set_permissions(&file, Permissions::from_mode(0o644)).expect("a file of ours");
        set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("a directory of ours");
        let message = find(&[&file], user).expect_err("replaceable by others");
        assert!(message.contains("can replace it"), "{message}");
        set_permissions(directory.path(), Permissions::from_mode(0o1777)).expect("a directory of ours");
        assert_eq!(find(&[&file], user), Ok(file.clone()));
        let other = find(&[&file], user + 1);
        assert_eq!(other.is_err(), user != 0, "{other:?}");
    }
}
