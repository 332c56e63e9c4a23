//! The files of the demo, embedded from `examples/` and `sdk/c/programs`, so that there is one copy.
//!
//! A test compares the list with the directories.

pub(crate) struct Script {
    pub name: &'static str,
    pub text: &'static str,
    /// The interpreter that the first line names (a path, or a name that is looked up in PATH), or an engine.
    pub interpreter: &'static str,
}

pub(crate) struct Program {
    /// The name on the demo's pages.
    pub name: &'static str,
    /// The name in the build directory.
    pub built: &'static str,
    pub text: &'static str,
}

macro_rules! engine_script {
    ($engine:literal, $name:literal) => {
        Script {
            name: $name,
            text: include_str!(concat!("../../../../examples/rte/", $name)),
            interpreter: $engine,
        }
    };
}

macro_rules! script {
    ($interpreter:literal, $name:literal) => {
        Script {
            name: $name,
            text: include_str!(concat!("../../../../examples/cgi-bin/", $name)),
            interpreter: $interpreter,
        }
    };
}

macro_rules! program {
    ($built:literal, $name:literal) => {
        Program {
            name: $name,
            built: $built,
            text: include_str!(concat!("../../../../sdk/c/programs/", $built, ".c")),
        }
    };
}

/// The index page, before it is completed.
pub(crate) const INDEX: &str = include_str!("../../../../examples/htdocs/index.html");

pub(crate) const PAGES: [(&str, &str); 2] = [
    ("icon.svg", include_str!("../../../../examples/htdocs/icon.svg")),
    ("style.css", include_str!("../../../../examples/htdocs/style.css")),
];

/// A directory with a script among its files.
pub(crate) const MIXED: [(&str, &str); 2] = [
    ("index.sh", include_str!("../../../../examples/pages/index.sh")),
    ("welcome.html", include_str!("../../../../examples/pages/welcome.html")),
];

/// The scripts of the site, by interpreter.
pub(crate) const SCRIPTS: [Script; 10] = [
    script!("/bin/sh", "clock.sh"),
    script!("/bin/sh", "counter.sh"),
    script!("/bin/sh", "fail.sh"),
    script!("/bin/sh", "printenv.sh"),
    script!("/bin/sh", "records.sh"),
    script!("python3", "counter.py"),
    script!("python3", "greet.py"),
    script!("python3", "printenv.py"),
    script!("perl", "counter.pl"),
    script!("perl", "printenv.pl"),
];

/// The scripts of the site that engines run. No script has the name of another one.
pub(crate) const ENGINE_SCRIPTS: [Script; 7] = [
    engine_script!("python", "environment.py"),
    engine_script!("python", "hello.py"),
    engine_script!("python", "hello_uses.py"),
    engine_script!("perl", "environment.pl"),
    engine_script!("perl", "hello.pl"),
    engine_script!("php", "environment.php"),
    engine_script!("php", "hello.php"),
];

pub(crate) const PROGRAMS: [Program; 4] = [
    program!("cgipluscallout", "cgipluscallout"),
    program!("cgiplustest", "cgiplustest"),
    program!("membufdemo", "membufdemo"),
    program!("printenv", "printenv-c"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// The names in a directory of this source tree, sorted.
    fn names(directory: &str) -> Vec<String> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
        let entries = std::fs::read_dir(directory).expect("a directory of this tree");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name().into_string();
        let mut names: Vec<String> = entries.map(|entry| name(entry).expect("UTF-8")).collect();
        names.sort();
        names
    }

    fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_file_of_the_examples_is_embedded() {
        assert_eq!(
            names("examples/cgi-bin"),
            sorted(SCRIPTS.iter().map(|script| script.name))
        );
        assert_eq!(
            names("examples/rte"),
            sorted(ENGINE_SCRIPTS.iter().map(|script| script.name))
        );
        let pages = PAGES.iter().map(|(name, _)| *name);
        assert_eq!(names("examples/htdocs"), sorted(pages.chain(["index.html"])));
        assert_eq!(names("examples/pages"), sorted(MIXED.iter().map(|(name, _)| *name)));
    }

    #[test]
    fn scripts_name_their_interpreter_and_are_executable() {
        for script in &SCRIPTS {
            let first = script.text.lines().next().unwrap_or_default();
            let named = ["#!", "#!/usr/bin/env "].map(|way| format!("{way}{}", script.interpreter));
            assert!(named.contains(&first.to_owned()), "{}: {first}", script.name);
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cgi-bin");
            let about = std::fs::metadata(file.join(script.name)).expect("a file of this tree");
            assert_eq!(about.permissions().mode() & 0o111, 0o111, "{}", script.name);
        }
    }
}
