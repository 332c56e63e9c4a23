//! The program that runs as the owner of a script: that script, or an interpreter of the configuration with the script as its argument, in the
//! directory of the script, and without variables that have a program run code of somebody else.
//!
//! Otherwise whoever controls the server process could name any file of a user, and have any program run as that user. Here: the check, which opens no
//! file. Not here: whether the owner may be a user of scripts (`user_policy`), and the owner itself (`owned_script`).

use std::ffi::{CStr, CString};

use crate::users::run_as::WishedProgram;
use crate::users::user_policy::FailedCheck;

/// The programs of routes whose scripts run as their owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedPrograms {
    /// Suffixes of script names, each with a program that runs such scripts, by its absolute path.
    pub interpreters: Vec<(String, CString)>,
    /// Working directories beside that of the script.
    pub directories: Vec<CString>,
    /// Entries `NAME=value` of the environment that a script may have although the name is one of `NAMES`.
    pub variables: Vec<Vec<u8>>,
}

/// Variables that name code, or directories with code: for the C library (ld.so(8), "Secure-execution mode", and gconv, locale and resolver), shells and
/// interpreters; the search path, and HOME, where interpreters find modules of the user.
const NAMES: [&str; 44] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "NIS_PATH",
    "NLSPATH",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "TZDIR",
    "BASH_ENV",
    "BASHOPTS",
    "CDPATH",
    "ENV",
    "FPATH",
    "IFS",
    "KSH_ENV",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "ZDOTDIR",
    "CLASSPATH",
    "GEM_HOME",
    "GEM_PATH",
    "GIT_EXEC_PATH",
    "JAVA_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "TCLLIBPATH",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Beginnings of such names.
const PREFIXES: [&str; 10] = [
    "LD_",
    "MALLOC_",
    "BASH_FUNC_",
    "PERL",
    "PYTHON",
    "RUBY",
    "LUA_",
    "GIT_CONFIG",
    "GIT_SSH",
    "R_",
];

impl OwnedPrograms {
    /// Checks a program that is to run as the owner of `script`.
    pub(crate) fn check(&self, script: &CStr, wished: &WishedProgram<'_>) -> Result<(), FailedCheck> {
        let root = wished.root.map_or(b"".as_slice(), CStr::to_bytes);
        let inner = below(script.to_bytes(), root).ok_or(FailedCheck::OutsideOfRoot)?;
        let mut words = wished.arguments.iter().map(CString::as_c_str);
        let first = words.next() == Some(wished.path);
        let is_itself = wished.path.to_bytes() == inner;
        let has_script = words.next().is_some_and(|word| word.to_bytes() == inner);
        let is_interpreted = has_script && self.interprets(script, wished.path, root);
        if !first || !(is_itself || is_interpreted) {
            return Err(FailedCheck::OtherProgram);
        }
        let directory = wished.directory.to_bytes();
        let is_permitted = |permitted: &CString| inside(permitted.as_bytes(), root) == directory;
        match directory == parent(inner) || self.directories.iter().any(is_permitted) {
            true => Ok(()),
            false => Err(FailedCheck::OtherDirectory),
        }
    }

    /// Removes from an environment the variables that make a program run code of somebody else, unless the configuration sets them.
    pub(crate) fn clean(&self, environment: &mut Vec<u8>) {
        let is_harmless = |entry: &[u8]| {
            let whole = entry.strip_suffix(b"\0").unwrap_or(entry);
            !names_code(whole) || self.variables.iter().any(|permitted| permitted == whole)
        };
        let entries = environment.split_inclusive(|byte| *byte == 0);
        let kept: Vec<&[u8]> = entries.filter(|entry| is_harmless(entry)).collect();
        *environment = kept.concat();
    }

    fn interprets(&self, script: &CStr, program: &CStr, root: &[u8]) -> bool {
        let script = script.to_bytes();
        self.interpreters.iter().any(|(suffix, interpreter)| {
            let end = script.len().checked_sub(suffix.len()).map(|start| &script[start..]);
            end.is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
                && inside(interpreter.as_bytes(), root) == program.to_bytes()
        })
    }
}

/// Whether an entry `NAME=value` has one of these names.
pub(crate) fn names_code(entry: &[u8]) -> bool {
    let name = entry.split(|byte| *byte == b'=').next().unwrap_or_default();
    NAMES.iter().any(|known| known.as_bytes() == name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// A path as a process with this root sees it; `None` if it is not below.
fn below<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    path.strip_prefix(root).filter(|rest| rest.starts_with(b"/"))
}

/// The same, but a path that is not below is one of the new root.
fn inside<'a>(path: &'a [u8], root: &[u8]) -> &'a [u8] {
    below(path, root).unwrap_or(path)
}

fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(end) => &path[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::run_as::{RunAs, UserPolicy};
    use crate::users::user_policy::{OwnerPolicy, ScriptUsers};

    const SCRIPT: &CStr = c"/home/ann/cgi/a.PL";

    fn permitted() -> OwnedPrograms {
        OwnedPrograms {
            interpreters: vec![(".pl".to_owned(), c"/usr/bin/perl".into())],
            directories: vec![c"/srv/work".into()],
            variables: vec![b"PATH=/usr/bin".to_vec()],
        }
    }

    /// The result of a check of these words, with the first one as the program.
    fn check(script: &CStr, words: &[&CStr], directory: &CStr, root: Option<&CStr>) -> Result<(), FailedCheck> {
        let arguments: Vec<CString> = words.iter().map(|word| CString::from(*word)).collect();
        let wished = WishedProgram {
            run_as: &RunAs::Owner(script.into()),
            path: words[0],
            arguments: &arguments,
            directory,
            root,
        };
        permitted().check(script, &wished)
    }

    #[test]
    fn the_script_itself_or_its_interpreter_runs_in_its_directory() {
        let own = c"/home/ann/cgi";
        let run = |words: &[&CStr], directory| check(SCRIPT, words, directory, None);
        assert_eq!(run(&[SCRIPT], own), Ok(()));
        assert_eq!(run(&[SCRIPT, c"argument"], c"/srv/work"), Ok(()));
        assert_eq!(run(&[c"/usr/bin/perl", SCRIPT, c"argument"], own), Ok(()));
        for words in [
            &[c"/bin/sh", c"-c", c"id"][..],
            &[c"/bin/sh", SCRIPT],
            &[c"/usr/bin/perl"],
            &[c"/usr/bin/perl", c"-e", c"1", SCRIPT],
            &[c"/home/ann/cgi/b.pl"],
            &[c"/home/ann/cgi/../cgi/a.PL"],
        ] {
            assert_eq!(run(words, own), Err(FailedCheck::OtherProgram), "{words:?}");
        }
        assert_eq!(run(&[SCRIPT], c"/tmp"), Err(FailedCheck::OtherDirectory));
        // A file without the suffix is no script of the interpreter.
        let secret = c"/home/ann/secret";
        let read = check(secret, &[c"/usr/bin/perl", secret], c"/home/ann", None);
        assert_eq!(read, Err(FailedCheck::OtherProgram));
    }

    #[test]
    fn paths_are_those_below_the_root() {
        let run = |words: &[&CStr], directory, root| check(SCRIPT, words, directory, Some(root));
        assert_eq!(run(&[c"/ann/cgi/a.PL"], c"/ann/cgi", c"/home"), Ok(()));
        let interpreted = [c"/usr/bin/perl", c"/ann/cgi/a.PL"];
        assert_eq!(run(&interpreted, c"/srv/work", c"/home/"), Ok(()));
        assert_eq!(
            run(&[SCRIPT], c"/home/ann/cgi", c"/home"),
            Err(FailedCheck::OtherProgram)
        );
        assert_eq!(
            run(&[SCRIPT], c"/home/ann/cgi", c"/srv/jail"),
            Err(FailedCheck::OutsideOfRoot)
        );
    }

    #[test]
    fn variables_that_name_code_come_from_the_configuration_alone() {
        let mut environment = b"REQUEST_METHOD=GET\0LD_PRELOAD=/tmp/x\0PATH=/usr/bin\0PATH=/tmp\0PYTHONPATH=/tmp\0HOME=/tmp\0HTTP_LD_A=1\0\
            BASH_FUNC_ls%%=() { id; }\0LANG=C\0GCONV_PATH=/tmp\0"
            .to_vec();
        permitted().clean(&mut environment);
        assert_eq!(environment, b"REQUEST_METHOD=GET\0PATH=/usr/bin\0HTTP_LD_A=1\0LANG=C\0");
    }

    #[test]
    fn a_policy_refuses_other_programs_and_other_roots() {
        let users = ScriptUsers {
            roots: vec![c"/home".into()],
            owners: Some(OwnerPolicy {
                is_for_all: true,
                programs: permitted(),
                ..OwnerPolicy::default()
            }),
            ..ScriptUsers::default()
        };
        let owner = RunAs::Owner(SCRIPT.into());
        let decide = |run_as: &RunAs, path: &CStr, root: Option<&CStr>| {
            let decided = users.decide(&WishedProgram {
                run_as,
                path,
                arguments: &[path.into()],
                directory: c"/home/ann/cgi",
                root,
            });
            decided.map_err(|refusal| refusal.to_string())
        };
        let shell = decide(&owner, c"/bin/sh", None).unwrap_err();
        assert!(shell.starts_with("the program is neither the script /home/ann/cgi/a.PL nor"));
        // Its file is checked after that; it is below none of the directories.
        let own = decide(&owner, SCRIPT, None).unwrap_err();
        assert!(own.contains("is below none of the directories"), "{own}");
        for run_as in [&RunAs::Usual, &owner] {
            let elsewhere = decide(run_as, SCRIPT, Some(c"/tmp/jail")).unwrap_err();
            assert_eq!(elsewhere, "no route has its root (chroot) in the configuration");
        }
        assert_eq!(decide(&RunAs::Usual, c"/bin/true", Some(c"/home")), Ok(None));
    }
}
