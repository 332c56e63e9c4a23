//! The warning about programs whose text would be sent.

use super::{SHOW, WIKI, wiki};
use sluice_testing::{Setup, run, write_script, write_with_mode};

/// The warnings of `check` about programs.
fn warnings(setup: &Setup) -> Vec<String> {
    setup.write_configuration();
    let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(checked.status.success(), "{}", checked.errors);
    let lines = checked
        .errors
        .lines()
        .filter(|line| line.contains("the text of programs"));
    lines.map(str::to_owned).collect()
}

#[test]
fn check_warns_of_programs_that_no_route_runs() {
    let found = warnings(&wiki().route("path = \"/wiki/*\"\ndirectory = \"wiki\""));
    assert_eq!(found.len(), 1, "{found:#?}");
    for part in [
        "/wiki: UPPER.PHP, both/index.php, doku.php and 4 more: run them by scripts = { \".php\"",
        "sluice.toml:",
    ] {
        assert!(found[0].contains(part), "{part}: {found:#?}");
    }
    assert_eq!(warnings(&wiki().route(WIKI)), [""; 0], "they are run");
    let refused = wiki()
        .route("path = \"/wiki/*.php\"\nrefuse = {}")
        .route("path = \"/wiki/*.PHP\"\nrefuse = {}")
        .route("path = \"/wiki/*\"\ndirectory = \"wiki\"");
    assert_eq!(warnings(&refused), [""; 0], "they are refused");
}

#[test]
fn check_knows_programs_by_their_beginning_and_execute_bit() {
    let setup = Setup::new()
        .file("notes.txt", "#!/bin/sh is how a script begins")
        .file("lib/secret.inc", "<?php $password = 1;")
        .file("plain.sh", "#!/bin/sh\n");
    write_script(&setup.path("htdocs/run.sh"), SHOW);
    write_script(&setup.path("htdocs/cgi-bin/x.php"), SHOW);
    write_with_mode(&setup.path("htdocs/.git/hook.php"), b"<?php", 0o644);
    let found = warnings(&setup);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("htdocs: lib/secret.inc, run.sh: "), "{found:#?}");
}

#[test]
fn serve_warns_of_programs_outside_of_cgi_bin() {
    let setup = Setup::new()
        .file("site/health.txt", "well")
        .file("site/index.php", "<?php");
    write_script(&setup.path("htdocs/site/cgi-bin/x.php"), SHOW);
    let server = setup.start_with(&["serve", "htdocs/site", "--listen", "127.0.0.1:0", "--host", "test"]);
    let line = server.log_line("the text of programs in ");
    assert!(
        line.contains("/site: index.php: `sluice serve` runs the programs in cgi-bin"),
        "{line}"
    );
}
