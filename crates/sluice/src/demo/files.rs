//! The files of the demo, embedded from `examples/` and `sdk/c/programs`, so that there is one copy.
//!
//! A test compares the list with the directories.

pub(crate) struct Script {
    /// The name on the demo's pages. No other one has it.
    pub name: &'static str,
    /// The name of its source.
    pub source: &'static str,
    pub text: &'static str,
    pub needs: Needs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The interpreter that the first line names (a path, or a name that is looked up in PATH).
    Interpreter(&'static str),
    /// An engine, with the interpreter that it needs in turn.
    Engine(&'static str),
    /// The C program that is built of it: in the build directory it has the name of the source without its suffix.
    Build,
}

macro_rules! script {
    ($needs:expr, $name:literal, $directory:literal, $source:literal) => {
        Script {
            name: $name,
            source: $source,
            text: include_str!(concat!("../../../../", $directory, "/", $source)),
            needs: $needs,
        }
    };
    ($interpreter:literal, $name:literal) => {
        script!(Needs::Interpreter($interpreter), $name, "examples/cgi-bin", $name)
    };
    (engine $engine:literal, $name:literal) => {
        script!(Needs::Engine($engine), $name, "examples/rte", $name)
    };
    (build $source:literal, $name:literal) => {
        script!(Needs::Build, $name, "sdk/c/programs", $source)
    };
}

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

pub(crate) const SCRIPTS: [Script; 21] = [
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
    script!(engine "python", "environment.py"),
    script!(engine "python", "hello.py"),
    script!(engine "python", "hello_uses.py"),
    script!(engine "perl", "environment.pl"),
    script!(engine "perl", "hello.pl"),
    script!(engine "php", "environment.php"),
    script!(engine "php", "hello.php"),
    script!(build "cgipluscallout.c", "cgipluscallout"),
    script!(build "cgiplustest.c", "cgiplustest"),
    script!(build "membufdemo.c", "membufdemo"),
    script!(build "printenv.c", "printenv-c"),
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
        let with = |is_with: fn(Needs) -> bool| {
            let scripts = SCRIPTS.iter().filter(move |script| is_with(script.needs));
            sorted(scripts.map(|script| script.name))
        };
        assert_eq!(
            names("examples/cgi-bin"),
            with(|needs| matches!(needs, Needs::Interpreter(_)))
        );
        assert_eq!(names("examples/rte"), with(|needs| matches!(needs, Needs::Engine(_))));
        let pages = PAGES.iter().map(|(name, _)| *name);
        assert_eq!(names("examples/htdocs"), sorted(pages.chain(["index.html"])));
        assert_eq!(names("examples/pages"), sorted(MIXED.iter().map(|(name, _)| *name)));
    }

    #[test]
    fn scripts_name_their_interpreter_and_are_executable() {
        for script in &SCRIPTS {
            let Needs::Interpreter(interpreter) = script.needs else {
                continue;
            };
            let first = script.text.lines().next().unwrap_or_default();
            let named = ["#!", "#!/usr/bin/env "].map(|way| format!("{way}{interpreter}"));
            assert!(named.contains(&first.to_owned()), "{}: {first}", script.name);
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cgi-bin");
            let about = std::fs::metadata(file.join(script.name)).expect("a file of this tree");
            assert_eq!(about.permissions().mode() & 0o111, 0o111, "{}", script.name);
        }
    }
}
