//! Engines that `check` starts once: those whose files are there, but which do not start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sluice_testing::{RunResult, Setup, run};

/// A directory of engines in which each engine is this shell script.
fn with_engines(script: &str, routes: &str) -> Setup {
    let setup = Setup::new().server("sdk = \"sdk\"");
    let setup = setup.route(routes).file("app/a.txt", "a");
    for name in ["php/sluice-php", "python/engine.py", "perl/engine.pl"] {
        let file = setup.path("sdk").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    setup
}

fn check(setup: &Setup, options: &[&str]) -> RunResult {
    setup.write_configuration();
    // Root checks for another user, who must reach the files.
    fs::set_permissions(setup.directory(), fs::Permissions::from_mode(0o755)).unwrap();
    let user: &[&str] = if is_root() { &["--run-as", USER] } else { &[] };
    run(
        setup.directory(),
        &[&["check", "-c", "sluice.toml"], user, options].concat(),
    )
}

const USER: &str = "60001:60001";

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    // The directory of this process in /proc belongs to its user.
    fs::metadata("/proc/self").unwrap().uid() == 0
}

const PHP: &str = "path = \"/app/*\"\nscript = { directory = \"htdocs/app\", mode = \"rte\", engine = \"php\" }";

#[test]
fn an_engine_whose_library_is_missing_is_a_mistake_with_the_package() {
    let setup = with_engines(
        "#!/bin/sh\necho \"$0: error while loading shared libraries: libphp8.2.so: cannot open shared object file\" >&2\nexit 127\n",
        PHP,
    );
    let ran = check(&setup, &[]);
    assert!(!ran.status.success());
    let engine = setup.path("sdk/php/sluice-php");
    for expected in [
        "sluice.toml:".to_owned(),
        "the engine of php does not start as ".to_owned(),
        format!("({}): exit code 127, ", engine.display()),
        "libphp8.2.so: cannot open shared object file: apt install libphp8.2-embed".to_owned(),
    ] {
        assert!(ran.errors.contains(&expected), "no {expected} in {}", ran.errors);
    }
    let ran = check(&setup, &["--json"]);
    let outcome: serde_json::Value = serde_json::from_str(&ran.output).unwrap();
    let mistake = &outcome["mistakes"][0];
    assert!(mistake["file"].as_str().unwrap().ends_with("sluice.toml"), "{outcome}");
    assert!(mistake["line"].as_u64().unwrap() > 1, "{outcome}");
    assert!(
        !mistake["message"].as_str().unwrap().contains("sluice.toml"),
        "{outcome}"
    );
}

#[test]
fn an_engine_that_needs_a_newer_library_is_a_mistake_with_the_remedy() {
    let setup = with_engines(
        "#!/bin/sh\necho \"$0: symbol lookup error: $0: undefined symbol: smart_str_ferealloc\" >&2\nexit 127\n",
        PHP,
    );
    let ran = check(&setup, &[]);
    assert!(!ran.status.success());
    for expected in [
        "the engine of php does not start as ",
        "exit code 127, symbol lookup error: ",
        "undefined symbol: smart_str_ferealloc: the libphp that is installed is older",
        "apt install --only-upgrade 'libphp*-embed'",
        "make sdk",
    ] {
        assert!(ran.errors.contains(expected), "no {expected} in {}", ran.errors);
    }
}

#[test]
fn an_engine_that_ends_with_its_requests_is_started_once_for_all_routes() {
    let script = "#!/bin/sh\necho \"$SCRIPT_RTE $*\" >> \"$TRIALS\"\nread -r request < /dev/fd/3 && exit 1\nexit 0\n";
    let route = |name: &str, more: &str| {
        format!(
            "path = \"/{name}/*\"\nscript = {{ directory = \"htdocs/app\", mode = \"rte\", engine = \"php\", environment = {{ TRIALS = \"TRIALS_FILE\" }}{more} }}"
        )
    };
    let routes = [
        route("a", ""),
        route("b", ", max = 3"),
        route("c", ", fresh = \"fork\""),
    ];
    let setup = with_engines(script, "path = \"/none\"\nrefuse = {}");
    let trials = setup.path("trials");
    fs::write(&trials, "").unwrap();
    fs::set_permissions(&trials, fs::Permissions::from_mode(0o666)).unwrap();
    let routes = routes.map(|lines| lines.replace("TRIALS_FILE", trials.to_str().unwrap()));
    let setup = routes.into_iter().fold(setup, |setup, lines| setup.route(&lines));
    let ran = check(&setup, &[]);
    assert!(ran.status.success(), "{}", ran.errors);
    let mut lines: Vec<_> = fs::read_to_string(&trials)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["php ", "php --fresh=fork"]);
}

#[test]
fn an_engine_is_started_as_the_user_of_its_scripts() {
    if !is_root() {
        return;
    }
    let setup = with_engines("#!/bin/sh\nexit 0\n", PHP);
    let check = || check(&setup, &[]);
    let ran = check();
    assert!(ran.status.success(), "{}", ran.errors);
    let engine = setup.path("sdk/php/sluice-php");
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o700)).unwrap();
    let ran = check();
    assert!(!ran.status.success(), "{}", ran.output);
    let expected = format!("the engine of php does not start as 60001 ({}): ", engine.display());
    assert!(ran.errors.contains(&expected), "{}", ran.errors);
}

#[test]
fn the_engines_of_the_sources_end_with_their_requests() {
    let route = |engine: &str| {
        format!(
            "path = \"/{engine}/*\"\nscript = {{ directory = \"htdocs/app\", mode = \"rte\", engine = \"{engine}\" }}"
        )
    };
    let setup = Setup::new().server("sdk = \"sdk\"").file("app/a.txt", "a");
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk");
    copy(Path::new(sources), &setup.path("sdk"));
    let setup = setup.route(&route("python")).route(&route("perl"));
    let ran = check(&setup, &[]);
    assert!(ran.status.success(), "{}", ran.errors);
    assert!(!ran.errors.contains("the engine of"), "{}", ran.errors);
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else if from.is_file() {
            fs::copy(&from, &to).unwrap();
        }
    }
}
