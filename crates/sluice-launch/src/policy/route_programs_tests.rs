//! Which programs routes permit, how they may run, and with which limits at least.

use std::ffi::{CStr, CString};

use super::*;
use crate::confine::file_rules::FileRules;
use crate::policy::run_as::{Decided, UserPolicy};
use crate::policy::user_policy::{OwnerPolicy, ScriptUsers};

const SCRIPT: &CStr = c"/home/ann/cgi/a.PL";

/// A route whose scripts, below /home, run as their owners.
fn of_owners() -> RoutePrograms {
    RoutePrograms {
        user: RouteUser::Owner,
        sources: vec![below_directory(c"/home")],
        interpreters: vec![(".pl".to_owned(), c"/usr/bin/perl".into())],
        has_arguments: true,
        directory: Some(c"/srv/work".into()),
        ..RoutePrograms::default()
    }
}

fn below_directory(directory: &CStr) -> RouteSource {
    RouteSource {
        directories: vec![directory.into()],
        ..RouteSource::default()
    }
}

/// A program that is asked for.
struct Wished {
    run_as: RunAs,
    words: Vec<CString>,
    directory: CString,
    limits: ProcessLimits,
    confinement: Confinement,
}

impl Wished {
    fn new(words: &[&CStr], directory: &CStr) -> Wished {
        Wished {
            run_as: RunAs::Usual,
            words: words.iter().map(|word| CString::from(*word)).collect(),
            directory: directory.into(),
            limits: ProcessLimits::default(),
            confinement: Confinement::default(),
        }
    }

    fn of_owner(script: &CStr, words: &[&CStr], directory: &CStr, root: Option<&CStr>) -> Wished {
        let mut wished = Wished::new(words, directory);
        wished.run_as = RunAs::Owner(script.into());
        wished.confinement.chroot = root.map(CString::from);
        wished
    }

    fn program(&self) -> WishedProgram<'_> {
        WishedProgram {
            run_as: &self.run_as,
            path: &self.words[0],
            arguments: &self.words,
            directory: &self.directory,
            limits: &self.limits,
            confinement: Some(&self.confinement),
        }
    }

    fn check(&self, route: &RoutePrograms) -> Result<(), FailedCheck> {
        route.check(&self.program())
    }
}

#[test]
fn the_script_itself_or_its_interpreter_runs_in_its_directory() {
    let own = c"/home/ann/cgi";
    let run = |words: &[&CStr], directory| Wished::of_owner(SCRIPT, words, directory, None).check(&of_owners());
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
    let read = Wished::of_owner(secret, &[c"/usr/bin/perl", secret], c"/home/ann", None).check(&of_owners());
    assert_eq!(read, Err(FailedCheck::OtherProgram));
}

#[test]
fn paths_are_those_below_the_root() {
    let run = |words: &[&CStr], directory, root: &CStr| {
        let mut route = of_owners();
        route.confinement.chroot = Some(root.into());
        Wished::of_owner(SCRIPT, words, directory, Some(root)).check(&route)
    };
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
fn only_scripts_of_a_route_of_the_same_user_run() {
    let mut route = RoutePrograms {
        sources: vec![
            below_directory(c"/srv/cgi/"),
            RouteSource {
                file: Some(c"/opt/one".into()),
                ..RouteSource::default()
            },
        ],
        ..RoutePrograms::default()
    };
    let run = |route: &RoutePrograms, words: &[&CStr], directory| Wished::new(words, directory).check(route);
    assert_eq!(run(&route, &[c"/srv/cgi/sub/a"], c"/srv/cgi/sub"), Ok(()));
    assert_eq!(run(&route, &[c"/opt/one"], c"/opt"), Ok(()));
    for other in [
        c"/bin/sh",
        c"/opt/two",
        c"/srv/cgi",
        c"/srv/cgi/",
        c"/srv/cgi-bin/a",
        c"/srv/cgi/../secret",
        c"/srv/cgi//a",
        c"srv/cgi/a",
    ] {
        let refused = run(&route, &[other], c"/srv/cgi");
        assert_eq!(refused, Err(FailedCheck::OtherProgram), "{other:?}");
    }
    // Arguments come from a query, where the route says so.
    let words = [c"/srv/cgi/a", c"keyword"];
    assert_eq!(run(&route, &words, c"/srv/cgi"), Err(FailedCheck::OtherProgram));
    route.has_arguments = true;
    assert_eq!(run(&route, &words, c"/srv/cgi"), Ok(()));
    let mut other_name = Wished::new(&[c"/srv/cgi/a"], c"/srv/cgi");
    other_name.words[0] = c"/srv/cgi/a".into();
    let path = WishedProgram { path: c"/bin/sh", ..other_name.program() };
    assert_eq!(route.check(&path), Err(FailedCheck::OtherProgram));
    other_name.run_as = RunAs::User("bob".to_owned());
    assert_eq!(other_name.check(&route), Err(FailedCheck::NoRoute));
    // Where links may lead anywhere, the launcher cannot say where a script is; its limits are the same.
    route.sources[0].follows_links = true;
    assert_eq!(run(&route, &[c"/elsewhere/a"], c"/elsewhere"), Ok(()));
}

#[test]
fn an_engine_runs_with_its_own_words_alone() {
    let route = RoutePrograms {
        sources: vec![below_directory(c"/srv/app")],
        engines: vec![EngineCommand {
            programs: vec![c"/usr/bin/python3".into(), c"/bin/python3".into()],
            files: vec![c"/usr/lib/sluice/python/engine.py".into()],
            options: vec![c"--app=a:b".into()],
        }],
        ..RoutePrograms::default()
    };
    let run = |words: &[&CStr], directory| Wished::new(words, directory).check(&route);
    let engine = c"/usr/lib/sluice/python/engine.py";
    assert_eq!(run(&[c"/bin/python3", engine, c"--app=a:b"], c"/srv/app/sub"), Ok(()));
    for words in [
        &[c"/bin/python3", engine][..],
        &[c"/bin/python3", engine, c"--app=evil:b"],
        &[c"/bin/python3", engine, c"--app=a:b", c"-c"],
        &[c"/bin/python3", c"/srv/app/x.py", c"--app=a:b"],
        &[c"/bin/sh", engine, c"--app=a:b"],
        &[c"/srv/app/x.py"],
    ] {
        assert_eq!(run(words, c"/srv/app"), Err(FailedCheck::OtherProgram), "{words:?}");
    }
    let words = [c"/bin/python3", engine, c"--app=a:b"];
    assert_eq!(run(&words, c"/tmp"), Err(FailedCheck::OtherDirectory));
    let mut owned = Wished::of_owner(c"/srv/app/x.py", &words, c"/srv/app", None);
    owned.words.push(c"/srv/app/x.py".into());
    let of_owner = RoutePrograms { user: RouteUser::Owner, ..route.clone() };
    assert_eq!(owned.check(&of_owner), Err(FailedCheck::OtherProgram));
}

/// A route with limits of each kind.
fn limited() -> RoutePrograms {
    RoutePrograms {
        sources: vec![below_directory(c"/srv/cgi")],
        limits: ProcessLimits {
            memory_bytes_max: Some(5),
            ..ProcessLimits::default()
        },
        confinement: Confinement {
            has_private_tmp: true,
            is_offline: true,
            files: Some(FileRules {
                read: vec![c"/srv/pages".into()],
                write: vec![c"/srv/data".into()],
            }),
            ..Confinement::default()
        },
        ..RoutePrograms::default()
    }
}

/// A program that has the limits of that route.
fn obedient() -> Wished {
    let mut wished = Wished::new(&[c"/srv/cgi/sub/a"], c"/srv/cgi/sub");
    wished.limits.memory_bytes_max = Some(5);
    wished.confinement = Confinement { covers_tmp: true, ..limited().confinement };
    wished
}

#[test]
fn a_program_without_a_limit_of_its_route_is_refused() {
    let route = limited();
    assert_eq!(obedient().check(&route), Ok(()));
    type Change = fn(&mut Wished);
    let changes: [(Change, &str); 5] = [
        (|wished| wished.limits.memory_bytes_max = None, "memory_max"),
        (|wished| wished.confinement.is_offline = false, "network"),
        (|wished| wished.confinement.has_private_tmp = false, "private_tmp"),
        (|wished| wished.confinement.covers_tmp = false, "private_tmp"),
        (|wished| wished.confinement.files = None, "read"),
    ];
    for (change, key) in changes {
        let mut wished = obedient();
        change(&mut wished);
        assert_eq!(wished.check(&route), Err(FailedCheck::Weaker(key)));
    }
    let obedient = obedient();
    let none = WishedProgram { confinement: None, ..obedient.program() };
    assert_eq!(route.check(&none), Err(FailedCheck::Weaker("private_tmp")));
    // A program in /tmp would be covered.
    let mut in_tmp = limited();
    in_tmp.sources = vec![below_directory(c"/tmp/cgi")];
    let mut wished = obedient;
    (wished.words, wished.directory) = (vec![c"/tmp/cgi/a".into()], c"/tmp/cgi".into());
    wished.confinement.covers_tmp = false;
    assert_eq!(wished.check(&in_tmp), Ok(()));
}

#[test]
fn a_program_may_use_the_files_of_its_route_and_its_own() {
    let with = |read: &[&CStr], write: &[&CStr]| {
        let paths = |paths: &[&CStr]| paths.iter().map(|path| CString::from(*path)).collect();
        let mut wished = obedient();
        wished.confinement.files = Some(FileRules { read: paths(read), write: paths(write) });
        wished.check(&limited())
    };
    assert_eq!(
        with(&[c"/srv/pages", c"/srv/cgi/sub", c"/srv/cgi"], &[c"/srv/data"]),
        Ok(())
    );
    assert_eq!(with(&[], &[]), Ok(()));
    assert_eq!(with(&[c"/"], &[]), Err(FailedCheck::Weaker("read")));
    assert_eq!(with(&[c"/srv/pages/.."], &[]), Err(FailedCheck::Weaker("read")));
    assert_eq!(with(&[], &[c"/srv/pages"]), Err(FailedCheck::Weaker("write")));
    assert_eq!(with(&[], &[c"/srv/cgi"]), Err(FailedCheck::Weaker("write")));
}

#[test]
fn one_of_several_routes_with_the_same_script_suffices() {
    let route = |bytes, variable: &[u8]| RoutePrograms {
        limits: ProcessLimits {
            memory_bytes_max: bytes,
            ..ProcessLimits::default()
        },
        sources: vec![below_directory(c"/srv/cgi")],
        variables: vec![variable.to_vec()],
        ..RoutePrograms::default()
    };
    let users = ScriptUsers {
        programs: vec![
            route(Some(5), b"LD_A=5"),
            route(Some(9), b"LD_A=9"),
            RoutePrograms {
                sources: vec![below_directory(c"/srv/free")],
                ..RoutePrograms::default()
            },
        ],
        ..ScriptUsers::default()
    };
    let decide = |bytes| {
        let mut wished = Wished::new(&[c"/srv/cgi/a"], c"/srv/cgi");
        wished.limits.memory_bytes_max = bytes;
        users.decide(&wished.program()).map_err(|refusal| refusal.to_string())
    };
    let with = |variables: &[&[u8]]| Decided {
        credentials: None,
        variables: Some(variables.iter().map(|entry| entry.to_vec()).collect()),
    };
    assert_eq!(decide(Some(9)), Ok(with(&[b"LD_A=9"])));
    assert_eq!(decide(Some(5)), Ok(with(&[b"LD_A=5", b"LD_A=9"])));
    for weaker in [Some(10), None] {
        let refused = decide(weaker).unwrap_err();
        assert_eq!(refused, "its limits are weaker than those of its route: memory_max");
    }
}

#[test]
fn a_policy_refuses_other_programs_and_other_roots() {
    let users = ScriptUsers {
        programs: vec![
            of_owners(),
            RoutePrograms {
                sources: vec![below_directory(c"/srv/cgi")],
                ..RoutePrograms::default()
            },
        ],
        owners: Some(OwnerPolicy { is_for_all: true, ..OwnerPolicy::default() }),
        ..ScriptUsers::default()
    };
    let decide = |wished: Wished| {
        users
            .decide(&wished.program())
            .map_err(|refusal| refusal.to_string())
            .unwrap_err()
    };
    let own = c"/home/ann/cgi";
    let shell = decide(Wished::of_owner(SCRIPT, &[c"/bin/sh"], own, None));
    assert!(shell.starts_with("the program is neither the script /home/ann/cgi/a.PL nor"));
    // Its file is checked after that; it is below none of the directories.
    let script = decide(Wished::of_owner(SCRIPT, &[SCRIPT], own, None));
    assert!(script.contains("is below none of the directories"), "{script}");
    let jailed = decide(Wished::of_owner(SCRIPT, &[SCRIPT], own, Some(c"/tmp/jail")));
    assert_eq!(
        jailed,
        "no route of its user has its root (chroot) in the configuration"
    );
    let usual = decide(Wished::new(&[c"/bin/true"], c"/bin"));
    assert_eq!(
        usual,
        "the program is neither a script that a route has for this user nor its interpreter or engine"
    );
    let mut named = Wished::new(&[c"/srv/cgi/a"], c"/srv/cgi");
    named.run_as = RunAs::User("bob".to_owned());
    assert_eq!(decide(named), "no route of the configuration has scripts of this user");
}
