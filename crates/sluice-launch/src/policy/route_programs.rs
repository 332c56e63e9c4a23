//! The programs of the routes of a configuration, each with the limits of its route: the launcher starts no others.
//!
//! A server process chooses a route by a path, which the launcher cannot check. What it can check: that a route of this user has such a program, run in
//! such a way, and that the program has all limits of that route. Otherwise whoever controls the server process could have any program run as a user, or
//! a script without its limits. The check opens no file.

use std::ffi::{CStr, CString};

use crate::confine::confinement::Confinement;
use crate::confine::limits::ProcessLimits;
use crate::policy::run_as::{RunAs, WishedProgram};
use crate::policy::user_policy::FailedCheck;

/// The programs of a route, or of several that differ only in where these are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutePrograms {
    /// The user.
    pub user: RouteUser,
    /// Where the scripts are.
    pub sources: Vec<RouteSource>,
    /// Suffixes of script names, each with a program that runs such scripts, by its absolute path.
    pub interpreters: Vec<(String, CString)>,
    /// Engines, which run the scripts; without one a script is executed, or its interpreter.
    pub engines: Vec<EngineCommand>,
    /// Whether the script gets arguments of its own.
    pub has_arguments: bool,
    /// The working directory, if it is not that of the script.
    pub directory: Option<CString>,
    /// Entries `NAME=value` of the environment that a program may have although they name code.
    pub variables: Vec<Vec<u8>>,
    /// The resource limits of each process.
    pub limits: ProcessLimits,
    /// The other restrictions; `covers_tmp` does not matter. Beside `files` a program may read what is its own.
    pub confinement: Confinement,
    /// Further files that are its own.
    pub own_files: Vec<CString>,
}

/// The user of a route, as in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RouteUser {
    /// The user of scripts whose route names none.
    #[default]
    Usual,
    /// The user of this name.
    Named(String),
    /// The owner of each script.
    Owner,
}

/// Where the scripts of a route are. All paths are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteSource {
    /// The only script. `None`: all files below the directories.
    pub file: Option<CString>,
    /// Spellings of one directory.
    pub directories: Vec<CString>,
    /// Whether links may lead to a script anywhere.
    pub follows_links: bool,
}

/// The command of an engine, in all of its forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineCommand {
    /// Paths of the program.
    pub programs: Vec<CString>,
    /// Paths of the file that the program runs, its first argument. Empty if the program itself is the engine.
    pub files: Vec<CString>,
    /// The other arguments.
    pub options: Vec<CString>,
}

/// How a program runs a script of a route. Paths are those below the root.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// The script, by itself or by its interpreter.
    Script(&'a [u8]),
    /// An engine, whose file this is.
    Engine(&'a [u8]),
}

impl RoutePrograms {
    /// Whether these permit all programs that others permit, because they differ only in where they are.
    pub(crate) fn includes(&self, others: &RoutePrograms) -> bool {
        let RoutePrograms {
            user,
            sources,
            interpreters,
            engines,
            has_arguments,
            directory,
            variables,
            limits,
            confinement,
            own_files,
        } = self;
        *user == others.user
            && *interpreters == others.interpreters
            && *engines == others.engines
            && *has_arguments == others.has_arguments
            && *directory == others.directory
            && *variables == others.variables
            && *limits == others.limits
            && *confinement == others.confinement
            && *own_files == others.own_files
            && others.sources.iter().all(|source| sources.contains(source))
    }

    /// Checks a program: its user, what runs, its working directory, and its limits.
    pub(crate) fn check(&self, wished: &WishedProgram<'_>) -> Result<(), FailedCheck> {
        if !self.user.is_of(wished.run_as) {
            return Err(FailedCheck::NoRoute);
        }
        if wished.root() != self.confinement.chroot.as_deref() {
            return Err(FailedCheck::UnknownRoot);
        }
        let mut failed = FailedCheck::OtherProgram;
        for source in &self.sources {
            match self.check_source(source, wished) {
                Ok(()) => return Ok(()),
                Err(check) => failed = failed.later(check),
            }
        }
        Err(failed)
    }

    fn check_source(&self, source: &RouteSource, wished: &WishedProgram<'_>) -> Result<(), FailedCheck> {
        let root = wished.root().map_or(b"".as_slice(), CStr::to_bytes);
        let way = self.way(source, wished, root)?;
        let directory = wished.directory.to_bytes();
        let is_usual = match way {
            Way::Script(script) => directory == parent(script),
            Way::Engine(_) => source.has_directory(directory, root),
        };
        let named = self.directory.as_ref();
        if !is_usual && named.is_none_or(|named| inside(named.as_bytes(), root) != directory) {
            return Err(FailedCheck::OtherDirectory);
        }
        match self.weaker(source, wished, way, root) {
            Some(key) => Err(FailedCheck::Weaker(key)),
            None => Ok(()),
        }
    }

    fn way<'a>(
        &self,
        source: &RouteSource,
        wished: &'a WishedProgram<'_>,
        root: &[u8],
    ) -> Result<Way<'a>, FailedCheck> {
        let words = wished.arguments;
        let first = words.first().filter(|first| first.as_c_str() == wished.path);
        let program = first.ok_or(FailedCheck::OtherProgram)?.as_bytes();
        if !self.engines.is_empty() {
            // An engine runs scripts of several owners.
            if matches!(wished.run_as, RunAs::Owner(_)) {
                return Err(FailedCheck::OtherProgram);
            }
            let file = self.engines.iter().find_map(|engine| engine.file(words, root));
            return file.map(Way::Engine).ok_or(FailedCheck::OtherProgram);
        }
        let is_script = |path: &&[u8]| source.has_script(path, root);
        let second = words.get(1).map(CString::as_bytes).filter(is_script);
        // The interpreter itself may be below the directory of the scripts, if that is the root.
        let (script, count) = match second.filter(|script| self.interprets(script, program, root)) {
            Some(script) => (script, 2),
            None if is_script(&program) => (program, 1),
            None => return Err(FailedCheck::OtherProgram),
        };
        if words.len() > count && !self.has_arguments {
            return Err(FailedCheck::OtherProgram);
        }
        if let RunAs::Owner(owned) = wished.run_as {
            let owned = below(owned.as_bytes(), root).ok_or(FailedCheck::OutsideOfRoot)?;
            if owned != script {
                return Err(FailedCheck::OtherProgram);
            }
        }
        Ok(Way::Script(script))
    }

    fn interprets(&self, script: &[u8], program: &[u8], root: &[u8]) -> bool {
        self.interpreters.iter().any(|(suffix, interpreter)| {
            let end = script.len().checked_sub(suffix.len()).map(|start| &script[start..]);
            end.is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
                && inside(interpreter.as_bytes(), root) == program
        })
    }

    /// The key of the first limit of this route that the program has not.
    fn weaker(
        &self,
        source: &RouteSource,
        wished: &WishedProgram<'_>,
        way: Way<'_>,
        root: &[u8],
    ) -> Option<&'static str> {
        let usual = Confinement::default();
        let confinement = wished.confinement.unwrap_or(&usual);
        let weaker = wished.limits.weaker_than(&self.limits);
        if let Some(key) = weaker.or_else(|| confinement.weaker_than(&self.confinement)) {
            return Some(key);
        }
        let own = self.own_files(source, wished, way, root);
        let covers = confinement.covers_tmp || own.iter().any(|file| is_in_tmp(file));
        if self.confinement.has_private_tmp && !covers {
            return Some("private_tmp");
        }
        let route = self.confinement.files.as_ref()?;
        let Some(files) = &confinement.files else {
            return Some("read");
        };
        // The first script of an engine may be in any directory of its source.
        let is_own =
            |path: &[u8]| own.contains(&path) || matches!(way, Way::Engine(_)) && source.has_directory(path, root);
        let may_read = |path: &CString| route.read.contains(path) || is_own(path.as_bytes());
        if !files.read.iter().all(may_read) {
            return Some("read");
        }
        (!files.write.iter().all(|path| route.write.contains(path))).then_some("write")
    }

    /// The files of a program that it may read without being named: its directories, its interpreter or engine.
    fn own_files<'a>(
        &'a self,
        source: &'a RouteSource,
        wished: &'a WishedProgram<'_>,
        way: Way<'a>,
        root: &[u8],
    ) -> Vec<&'a [u8]> {
        let configured = source.directories.iter().chain(&self.own_files);
        let mut own: Vec<&[u8]> = configured.map(|path| inside(path.as_bytes(), root)).collect();
        own.extend([wished.directory.to_bytes(), wished.path.to_bytes()]);
        own.push(match way {
            Way::Script(script) => parent(script),
            Way::Engine(file) => parent(file),
        });
        own
    }
}

impl RouteUser {
    fn is_of(&self, wish: &RunAs) -> bool {
        match (self, wish) {
            (RouteUser::Usual, RunAs::Usual) | (RouteUser::Owner, RunAs::Owner(_)) => true,
            (RouteUser::Named(name), RunAs::User(wished)) => name == wished,
            _ => false,
        }
    }
}

impl RouteSource {
    /// Whether a path below the root is that of a script.
    fn has_script(&self, path: &[u8], root: &[u8]) -> bool {
        if let Some(file) = &self.file {
            return inside(file.as_bytes(), root) == path;
        }
        let mut directories = self.directories.iter();
        (self.follows_links && path.starts_with(b"/"))
            || directories.any(|directory| is_below(path, inside(directory.as_bytes(), root)))
    }

    /// Whether the first script of an engine can be in this directory.
    fn has_directory(&self, path: &[u8], root: &[u8]) -> bool {
        let mut directories = self
            .directories
            .iter()
            .map(|directory| inside(directory.as_bytes(), root));
        let of_file = self.file.as_ref().map(|file| parent(inside(file.as_bytes(), root)));
        self.follows_links || of_file == Some(path) || directories.any(|own| own == path || is_below(path, own))
    }
}

impl EngineCommand {
    /// The file of the engine, if these are the words of its command.
    fn file<'a>(&self, words: &'a [CString], root: &[u8]) -> Option<&'a [u8]> {
        let has = |paths: &[CString], word: &CString| {
            paths
                .iter()
                .any(|path| inside(path.as_bytes(), root) == word.as_bytes())
        };
        let (program, rest) = words
            .split_first()
            .filter(|(program, _)| has(&self.programs, program))?;
        let (file, options) = match self.files.is_empty() {
            true => (program, rest),
            false => rest.split_first().filter(|(file, _)| has(&self.files, file))?,
        };
        (options == self.options).then_some(file.as_bytes())
    }
}

/// A path as a process with this root sees it; `None` if it is not below.
fn below<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    path.strip_prefix(root)
        .filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The same, but a path that is not below is one of the new root.
fn inside<'a>(path: &'a [u8], root: &[u8]) -> &'a [u8] {
    match below(path, root) {
        Some(b"") => b"/",
        Some(rest) => rest,
        None => path,
    }
}

/// Whether a path leads to something below a directory, without `.` and `..` after it.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let rest = below(path, directory).and_then(|rest| rest.strip_prefix(b"/"));
    let is_plain = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    rest.is_some_and(|rest| rest.split(|byte| *byte == b'/').all(is_plain))
}

fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(end) => &path[..end],
    }
}

/// Whether a file is where programs put temporary files.
fn is_in_tmp(path: &[u8]) -> bool {
    ["/tmp", "/var/tmp"]
        .iter()
        .any(|shared| below(path, shared.as_bytes()).is_some())
}

#[cfg(test)]
#[path = "route_programs_tests.rs"]
mod tests;
