//! The programs that tests start against the list that `make test` passes to tools/needs, which installs what is missing.

use crate::source::Text;

/// Programs of every Debian (Essential: yes), and make, without which nothing of this runs.
const ESSENTIAL: [&str; 12] = [
    "awk", "bash", "dd", "gzip", "grep", "id", "make", "mkfifo", "sh", "sleep", "tar", "timeout",
];

/// Texts before the name of a program in Rust, and in Python.
const STARTS: [&str; 3] = ["Command::new(\"", "shutil.which(\"", "for command in ([\""];

/// Programs that a test starts and that neither every Debian has nor `make test` installs.
pub(crate) fn check(makefile: &Text, tests: &[&Text]) -> Vec<String> {
    let mut lines = makefile.text.lines().skip_while(|line| *line != "test:").skip(1);
    let Some(needs) = lines.next().and_then(|line| line.split_once("tools/needs ")) else {
        return vec!["Makefile: the first command of `test:` must be tools/needs".to_owned()];
    };
    let installed: Vec<&str> = needs.1.split_whitespace().collect();
    let is_known = |name: &str| installed.contains(&name) || ESSENTIAL.contains(&name);
    let mut findings = Vec::new();
    for test in tests {
        for start in STARTS {
            let after = test.text.split(start).skip(1);
            let names = after.filter_map(|after| after.split('"').next());
            // The programs of tests themselves, and paths.
            let names = names.filter(|name| {
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || b"+-".contains(&byte))
            });
            findings.extend(names.filter(|name| !is_known(name)).map(|name| {
                format!(
                    "{}: starts {name}: name it in `make test` (tools/needs in the Makefile)",
                    test.path
                )
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_programs_are_found() {
        let text = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let makefile = text("Makefile", "test:\n\t@tools/needs curl\n");
        let tests = text(
            "a.rs",
            "Command::new(\"curl\"); Command::new(\"gdb\"); Command::new(\"/bin/x\")",
        );
        let findings = check(&makefile, &[&tests]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("a.rs: starts gdb"), "{findings:?}");
        assert_eq!(check(&text("Makefile", "all:\n"), &[]).len(), 1);
    }
}
