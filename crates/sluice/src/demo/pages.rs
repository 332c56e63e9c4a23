//! `/pages/` of the demo: a directory with a script among its files, which answers where there is no file.

use std::fs;
use std::io;
use std::path::Path;

use sluice_settings::rule::{Pattern, Replacement};
use sluice_settings::{
    Action, DirectorySettings, Fallback, RouteSettings, ScriptSettings, ScriptSource, SuffixScripts,
};

use super::files::MIXED;

const PATH: &str = "/pages/*";

const CANDIDATES: [&str; 2] = ["/pages/$1.html", "/pages/index.sh"];

pub(super) fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    for (name, text) in MIXED {
        fs::write(directory.join(name), text)?;
    }
    Ok(())
}

pub(super) fn route(directory: &Path, origin: &str) -> RouteSettings {
    let mut script = ScriptSettings::cgi(ScriptSource::Directory(directory.to_owned()));
    script.interpreters.insert(".sh".into(), "/bin/sh".into());
    let pattern = Pattern::from(PATH);
    let paths = CANDIDATES
        .iter()
        .filter_map(|to| Replacement::rewrite(to, &pattern).ok());
    let settings = DirectorySettings {
        scripts: Some(SuffixScripts { suffixes: vec![".sh".into()], script }),
        fallback: paths.map(Fallback::Path).collect(),
        ..DirectorySettings::new(directory.to_owned())
    };
    RouteSettings {
        origin: origin.into(),
        ..RouteSettings::new(PATH, Action::Files(Box::new(settings)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_a_path() {
        match route(Path::new("pages"), "test").action {
            Action::Files(directory) => assert_eq!(directory.fallback.len(), CANDIDATES.len()),
            other => panic!("{other:?} serves no directory"),
        }
    }
}
