//! Sizes of tracked files, because everybody who clones the repository fetches them.

use std::path::Path;
use std::process::Command;

/// Bytes that all tracked files may have: 12 MB.
const TOTAL_BYTES_MAX: u64 = 12_000_000;
/// Bytes that one file may have: enough for the results of a benchmark.
const FILE_BYTES_MAX: u64 = 512 << 10;

/// Checks the files that git tracks in a checkout. A tree without git, such as an unpacked archive, has no tracked files.
pub(crate) fn check_tracked(root: &Path) -> Vec<String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.ok().filter(|output| output.status.success());
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    let names = listed.split('\0').filter(|name| !name.is_empty());
    let sizes = names.filter_map(|name| Some((name, root.join(name).symlink_metadata().ok()?.len())));
    check(&sizes.collect::<Vec<_>>())
}

/// Checks files by their names and sizes in bytes.
fn check(files: &[(&str, u64)]) -> Vec<String> {
    let large = files.iter().filter(|(_, bytes)| *bytes > FILE_BYTES_MAX);
    let mut findings: Vec<String> = large
        .map(|(name, bytes)| format!("{name}:1: has {bytes} bytes: a tracked file may have {FILE_BYTES_MAX}"))
        .collect();
    let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    if total > TOTAL_BYTES_MAX {
        findings.push(format!(
            "all tracked files have {total} bytes: they may have {TOTAL_BYTES_MAX}"
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_and_many_files_are_found() {
        assert_eq!(check(&[("a", FILE_BYTES_MAX), ("b", 1)]), Vec::<String>::new());
        assert_eq!(
            check(&[("a", FILE_BYTES_MAX + 1)]),
            ["a:1: has 524289 bytes: a tracked file may have 524288"]
        );
        let many = [("a", FILE_BYTES_MAX); 25];
        assert_eq!(
            check(&many),
            ["all tracked files have 13107200 bytes: they may have 12000000"]
        );
    }
}
