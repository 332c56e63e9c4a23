//! Included files: which are read, what they add, and messages about them.

use super::super::{load, load_to_run};
use super::read_with;

/// A main file that includes all files below `sites`.
const MAIN: &str = "include = 'sites/*.toml'\n[[site]]\nroot = 'main'\n";

/// The mistakes of a configuration.
#[track_caller]
fn mistakes(main: &str, included: &[(&str, &str)]) -> Vec<String> {
    let errors = read_with(main, included).expect_err("mistakes").to_string();
    errors.lines().map(str::to_owned).collect()
}

#[test]
fn files_are_read_in_the_order_of_their_names_and_their_paths_start_from_their_directory() {
    let files = [
        ("sites/b.toml", "[[site]]\nhosts = ['b']\nroot = 'htdocs'\n"),
        ("sites/.a.toml", "not read"),
        ("sites/a.toml~", "not read"),
        ("sites/a.toml", "[[site]]\nhosts = ['a']\nroot = '../htdocs'\n"),
    ];
    let settings = read_with(MAIN, &files).unwrap_or_else(|errors| panic!("{errors}"));
    let sites: Vec<_> = settings
        .sites
        .iter()
        .map(|site| {
            (
                site.origin.as_str(),
                site.root.as_ref().and_then(|root| root.to_str()).unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        sites,
        [
            ("sluice.toml:2", "/etc/sluice/main"),
            ("sites/a.toml:1", "/etc/sluice/sites/../htdocs"),
            ("sites/b.toml:1", "/etc/sluice/sites/htdocs"),
        ]
    );
    let files: Vec<_> = settings
        .config_files
        .iter()
        .map(|file| file.to_str().unwrap_or_default())
        .collect();
    assert_eq!(
        files,
        [
            "/etc/sluice/sluice.toml",
            "/etc/sluice/sites/a.toml",
            "/etc/sluice/sites/b.toml"
        ]
    );
}

#[test]
fn a_file_is_included_once_and_a_file_does_not_include_itself() {
    let main = "include = ['*.toml', 'a.toml', './a.toml']\n";
    let files = [("a.toml", "[[site]]\nroot = 'a'\n"), ("sluice.toml", "never read")];
    let settings = read_with(main, &files).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((settings.sites.len(), settings.config_files.len()), (1, 2));
}

#[test]
fn routes_are_added_to_the_site_of_their_host_whichever_file_defines_it() {
    let main = "include = ['sites/*.toml']\n[[site]]\nhosts = ['first', '*.star']\nroot = 'a'\n";
    let route = |path: &str| format!("[[route]]\npath = '{path}'\nrefuse = {{}}\n");
    let (bare, wiki, star) = (
        route("/bare"),
        format!("host = 'Late'\n{}", route("/wiki")),
        format!("host = 'x.star'\n{}", route("/star")),
    );
    let files = [
        ("sites/a.toml", bare.as_str()),
        ("sites/b.toml", wiki.as_str()),
        ("sites/c.toml", star.as_str()),
        (
            "sites/z.toml",
            "[[site]]\nhosts = ['late']\n[[site.route]]\npath = '/own'\nrefuse = {}\n",
        ),
    ];
    let settings = read_with(main, &files).unwrap_or_else(|errors| panic!("{errors}"));
    let routes: Vec<Vec<(String, &str)>> = settings
        .sites
        .iter()
        .map(|site| {
            site.routes
                .iter()
                .map(|route| (route.path.to_string(), route.origin.as_str()))
                .collect()
        })
        .collect();
    let expected = |routes: &[(&str, &'static str)]| -> Vec<(String, &str)> {
        routes
            .iter()
            .map(|(path, origin)| ((*path).to_owned(), *origin))
            .collect()
    };
    assert_eq!(
        routes,
        [
            expected(&[("/bare", "sites/a.toml:1"), ("/star", "sites/c.toml:2")]),
            expected(&[("/own", "sites/z.toml:3"), ("/wiki", "sites/b.toml:2")]),
        ]
    );
}

#[test]
fn mistakes_name_the_included_file_and_its_line() {
    let cases = [
        (
            "[[route]]\npath = '/a'\nredirct = {}\nrefuse = {}",
            "sites/x.toml:3: unknown key \"redirct\" in [[site.route]]; did you mean \"redirect\"?",
        ),
        (
            "\n[[site]\n",
            "sites/x.toml:2: cannot be read as TOML: unclosed array table, expected `]`",
        ),
        (
            "[[site]]\nroot = 'x'",
            "sites/x.toml:1: [[site]] without hosts matches any host, as the one on line 2 of sluice.toml does: give it hosts = [\"example.org\"]",
        ),
        (
            "[limits]\nconnections = 1",
            "sites/x.toml:1: \"limits\" belongs in the main file: an included file has only [[site]], [[route]], [blocks.NAME] and host",
        ),
        (
            "include = 'more.toml'",
            "sites/x.toml:1: include: an included file cannot include others: name them in the main file",
        ),
        (
            "rout = []",
            "sites/x.toml:1: unknown key \"rout\" in an included file; did you mean \"route\"?",
        ),
        (
            "[[site.route]]\npath = '/a'\nrefuse = {}",
            "sites/x.toml:1: a route for a site of another file is written [[route]]; host = \"example.org\" at the top of the file says for which site",
        ),
        (
            "host = 'nowhere'\n[[route]]\npath = '/a'\nrefuse = {}",
            "sites/x.toml:1: host = 'nowhere': no site has this host: write one of a site's hosts, or add a [[site]] with it",
        ),
        (
            "host = 'nowhere'",
            "sites/x.toml:1: host = 'nowhere': is for the routes of this file, and it has none: add [[route]], or remove this",
        ),
        (
            "[[route]]\npath = '/a/*'\nscript = { directory = 'missing' }",
            "sites/x.toml:3: directory: no directory /etc/sluice/sites/missing (No such file or directory): create it or fix the path",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(mistakes(MAIN, &[("sites/x.toml", text)]), [message], "{text}");
    }
}

#[test]
fn a_route_that_an_earlier_file_leaves_no_request_is_reported() {
    let main = format!("{MAIN}[[site.route]]\npath = '/*'\nrefuse = {{}}\n");
    let message = "sites/x.toml:2: path = \"/a\": never matches, because \"/*\" on line 5 of sluice.toml comes first: move that one to a file that is included later";
    assert_eq!(
        mistakes(&main, &[("sites/x.toml", "[[route]]\npath = '/a'\nrefuse = {}")]),
        [message]
    );
}

#[test]
fn files_that_cannot_be_included_are_reported() {
    let cases = [
        ("'sites/fifo.toml'", "include: sites/fifo.toml is not a regular file"),
        ("'sites/b.toml'", "include: sites/b.toml cannot be read: invented"),
        (
            "'nowhere/*.toml'",
            "include = 'nowhere/*.toml': \"nowhere/*.toml\": no directory /etc/sluice/nowhere (entity not found): create it or fix the path",
        ),
        (
            "'sites/[ab].toml'",
            "include = 'sites/[ab].toml': \"sites/[ab].toml\": the wildcards are * and ?, which stand for letters of one name: write a list of several patterns instead",
        ),
        (
            "['']",
            "include = ['']: \"\": must be the path of a file, or a pattern such as \"sites/*.toml\"",
        ),
        (
            "1",
            "include = 1: must be a text or a list of texts, as in include = \"sites/*.toml\"",
        ),
    ];
    for (value, message) in cases {
        let main = format!("include = {value}\n[[site]]\nroot = 'a'\n");
        let found = mistakes(&main, &[("sites/a.toml", "")]);
        assert_eq!(found, [format!("sluice.toml:1: {message}")], "{value}");
    }
}

#[test]
fn a_pattern_may_match_nothing() {
    assert!(read_with(MAIN, &[("sites/readme", "")]).is_ok());
    let wanted =
        "sluice.toml: has no [[site]], so nothing would be served: add [[site]] and root = \"htdocs\" below it";
    assert_eq!(
        mistakes("include = 'sites/*.toml'\n", &[("sites/readme", "")]),
        [wanted]
    );
}

#[test]
fn directories_may_be_matched_too() {
    let files = [
        ("apps/a/sluice.toml", "[[site]]\nhosts = ['a']\nroot = 'a'\n"),
        ("apps/b/sluice.toml", "[[site]]\nhosts = ['b']\nroot = 'b'\n"),
    ];
    let settings = read_with("include = 'apps/*/sluice.toml'\n", &files).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(settings.sites.len(), 2);
}

#[test]
fn a_dangling_link_among_matched_directories_is_a_mistake() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::create_dir_all(path("sites/good")).expect("room for a directory");
    std::fs::write(path("sites/plain"), "").expect("room for a file");
    std::fs::write(path("sites/good/a.toml"), "[[site]]\nroot = '.'\n").expect("room for a file");
    std::fs::write(path("sluice.toml"), "include = 'sites/*/*.toml'\n").expect("room for a file");
    assert!(load(&path("sluice.toml")).is_ok());
    std::os::unix::fs::symlink("/nonexistent", path("sites/broken")).expect("a link");
    let message = load_to_run(&path("sluice.toml"), |_| {})
        .expect_err("a mistake")
        .to_string();
    assert!(
        message.contains("sluice.toml:1: include: no directory ") && message.contains("sites/broken"),
        "{message}"
    );
}

#[test]
fn a_directory_that_a_wildcard_finds_is_left_out_with_a_warning_and_a_dangling_link_is_a_mistake() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::create_dir_all(path("sites/old.toml")).expect("room for a directory");
    std::fs::write(path("sites/a.toml"), "[[site]]\nroot = '.'\n").expect("room for a file");
    std::fs::write(path("sluice.toml"), "include = 'sites/*.toml'\n").expect("room for a file");
    let mut warnings = Vec::new();
    let loaded = load_to_run(&path("sluice.toml"), |warning| warnings.push(warning.to_owned()));
    assert_eq!(loaded.map(|settings| settings.sites.len()), Ok(1));
    let warning = "old.toml is not a regular file; it is left out until the next reload";
    assert!(warnings.len() == 1 && warnings[0].ends_with(warning), "{warnings:?}");
    let message = load(&path("sluice.toml")).expect_err("a mistake for check").to_string();
    assert!(message.contains("old.toml is not a regular file"), "{message}");
    // Its routes may have rules for a site of another file.
    std::os::unix::fs::symlink("/nonexistent", path("sites/protect.toml")).expect("a link");
    let message = load_to_run(&path("sluice.toml"), |_| {})
        .expect_err("a mistake")
        .to_string();
    assert!(message.contains("sites/protect.toml cannot be read"), "{message}");
}
