//! `directory`, `scripts` and `fallback` of a route: what they make, and the messages about mistakes.

use std::path::Path;

use sluice_settings::{Action, DirectorySettings, Fallback, Mode};

use super::messages::{assert_mistake, with_route};
use super::read;

/// The directory of the only route.
#[track_caller]
fn directory(route: &str) -> DirectorySettings {
    let settings = read(&with_route(route)).unwrap_or_else(|errors| panic!("{errors}\n{route}"));
    match &settings.sites[0].routes[0].action {
        Action::Files(directory) => (**directory).clone(),
        other => panic!("{other:?} serves no directory"),
    }
}

#[test]
fn a_directory_with_scripts_counts_as_a_route_for_scripts() {
    let text = with_route("path = '/wiki/*'\ndirectory = 'app'\nscripts = { '.php' = 'php-cgi' }");
    let contents = super::super::contents(&read(&text).expect("a valid configuration"));
    assert!(contents.starts_with("1 site, 1 route, 1 for scripts;"), "{contents}");
}

#[test]
fn directory_with_scripts_is_read() {
    let read = directory(
        "path = '/wiki/*'\ndirectory = 'app'\nscripts = { '.PHP' = 'perl', '.x.cgi' = '' }\nscript = { mode = 'cgiplus', max = 3 }\nfiles = { listing = true }",
    );
    assert_eq!(read.path, Path::new("/etc/sluice/app"));
    assert_eq!(read.listing, Some(true));
    let scripts = read.scripts.unwrap();
    assert_eq!(scripts.suffixes, [".x.cgi", ".php"]);
    assert_eq!((scripts.script.mode, scripts.script.pool.max), (Mode::Cgiplus, 3));
    assert_eq!(
        scripts.script.interpreters.get(".php").map(String::as_str),
        Some("perl")
    );
    assert_eq!(scripts.script.interpreters.len(), 1);
}

#[test]
fn directory_is_that_of_the_path_below_the_root() {
    for (route, path) in [
        (
            "path = '/app/*'\nscripts = { '.php' = 'perl' }",
            "/etc/sluice/htdocs/app",
        ),
        ("path = '/*'\nfallback = '/index.html'", "/etc/sluice/htdocs"),
        (
            "path = '/a/b/*'\nfallback = 'next'\nfiles = { listing = true }",
            "/etc/sluice/htdocs/a/b",
        ),
        (
            "path = '/a/*'\nfallback = 'next'\nfiles = { directory = 'b' }",
            "/etc/sluice/b",
        ),
    ] {
        assert_eq!(directory(route).path, Path::new(path), "{route}");
    }
}

#[test]
fn fallbacks_are_read() {
    let shown = |route: &str| {
        let fallback = directory(route).fallback;
        let texts = fallback.iter().map(|candidate| match candidate {
            Fallback::Path(to) => to.to_string(),
            Fallback::NextRoute => "next".to_owned(),
        });
        texts.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        shown("path = '/*'\nfallback = '/index.php?q=$1&${query}'"),
        "/index.php?q=$1&${query}"
    );
    assert_eq!(
        shown("path = '/*'\nfallback = ['$0.html', '$0/', 'next']"),
        "/${1}.html /${1}/ next"
    );
    assert_eq!(shown("path = '/a b$/*'\nfallback = '${0}.html'"), "/a%20b$$/${1}.html");
}

#[test]
fn mistakes_of_directories_are_reported() {
    let star = |path: &str, route: &str| format!("path = '{path}'\n{route}");
    for (route, message) in [
        (
            star("/app/*.php", "directory = 'app'"),
            "4: path = \"/app/*.php\": what the \"*\" matches is looked up in the directory, without \".php\", so nothing is found: write \
             \"/app/*\", and for scripts by suffix among files directory = \"…\", scripts = { \".php\" = \"…\" } in the route",
        ),
        (
            star("/app/*.php", "script = { directory = 'app' }"),
            "4: path = \"/app/*.php\": what the \"*\" matches is looked up in the directory, without \".php\", so nothing is found: write \
             \"/app/*\", and for scripts by suffix among files directory = \"…\", scripts = { \".php\" = \"…\" } in the route",
        ),
        (
            star("/a/*/*.txt", "files = { directory = 'app' }"),
            "4: path = \"/a/*/*.txt\": what the first \"*\" matches is looked up in the directory, without the rest, so nothing is found: \
             write \"/a/*\"",
        ),
        (
            star("/app", "directory = 'app'"),
            "4: path = \"/app\": files in a directory need a \"*\" for the rest of the path: write \"/app/*\"",
        ),
        (
            star("/app/*", "directory = 'app'\nfiles = { directory = 'b' }"),
            "6: directory = 'b': the route has a directory already: keep one of them",
        ),
        (
            star("/app/*", "directory = 'app'\nscript = {}"),
            "5: directory = 'app': for a directory of scripts write it into script = { directory = \"…\" }, for scripts among files scripts = { \".php\" = \"php-cgi\" }",
        ),
        (
            star("/app/*", "directory = 'app'\nredirect = { to = '/x' }"),
            "3: [[site.route]] has directory and redirect: a route has one action, so make two routes of it",
        ),
        (
            star("/app/*", "scripts = { 'php' = 'perl' }"),
            "5: scripts: \"php\": a suffix is written with its dot, as in \".pl\"",
        ),
        (
            star("/app/*", "scripts = { '.php' = 'missing' }"),
            "5: scripts: \".php\": no program missing in PATH: install it, or write its path",
        ),
        (
            star("/app/*", "scripts = { '.php' = 'perl' }\nscript = { directory = 'x' }"),
            "6: directory = 'x': scripts of the route says which files are run: remove this, and write directory = \"…\" in the route",
        ),
        (
            star("/app/*", "files = {}"),
            "5: [[site.route]].files lacks directory: write, for instance, directory = \"pictures\"",
        ),
        (
            "regex = '^/x'\nfallback = '/index.html'".to_owned(),
            "4: regex: fallback needs a path with a \"*\", which says what to look up: use rewrite = \"/…\" here, and a route with such a path below",
        ),
    ] {
        assert_mistake(&with_route(&route), message);
    }
    assert_mistake(
        "[[site]]\n[[site.route]]\npath = '/*'\nfallback = '/index.php'\n",
        "2: [[site.route]] does not say in which directory its files are: give it directory = \"…\", or the site root = \"htdocs\"",
    );
}

#[test]
fn mistakes_of_fallbacks_are_reported() {
    for (fallback, message) in [
        (
            "'index.php'",
            "fallback = 'index.php': must be a path, \"/…\"; only a redirect leads to another host",
        ),
        (
            "['$uri', '/index.php']",
            "fallback = ['$uri', '/index.php']: \"$uri\": $uri is a variable of nginx: write $0; the query is kept if none is written",
        ),
        (
            "'/index.php?$args'",
            "fallback = '/index.php?$args': $args is a variable of nginx: write ${query}; the query is kept if none is written",
        ),
        (
            "['/a', '=404']",
            "fallback = ['/a', '=404']: \"=404\": a status is no candidate: where none leads to anything the answer is 404; remove it",
        ),
        (
            "'@app'",
            "fallback = '@app': is a name of nginx: write a path of another route, or \"next\" for the routes below",
        ),
        ("'$0'", "fallback = '$0': the path itself is tried first: remove it"),
        (
            "['next', '/x']",
            "fallback = ['next', '/x']: a candidate after \"next\" is never tried: put \"next\" at the end",
        ),
        (
            "[]",
            "fallback = []: an empty list has no candidate: leave it out for 404",
        ),
    ] {
        let route = format!("path = '/*'\nfallback = {fallback}");
        assert_mistake(&with_route(&route), &format!("5: {message}"));
    }
}

#[test]
fn route_whose_fallback_is_the_next_hides_no_other() {
    let route = |fallback: &str| {
        format!("path = '/*'\nfallback = {fallback}\n[[site.route]]\npath = '/*'\nfiles = {{ directory = 'b' }}")
    };
    assert!(read(&with_route(&route("'next'"))).is_ok());
    assert_mistake(
        &with_route(&route("'/x'")),
        "7: path = \"/*\": never matches, because \"/*\" on line 4 comes first: put this route above it",
    );
}

#[test]
fn the_scripts_among_files_have_the_warnings_of_others() {
    let text = "[limits]\nmemory_buffers = '1MiB'\n[[site]]\nroot = 'site'\n[[site.route]]\npath = '/a/*'\ndirectory = 'site'\n\
                scripts = { '.py' = 'python3' }\nscript = { memory_buffer_max = '8MiB' }\n";
    let warnings = crate::warnings::warnings(&read(text).unwrap());
    let is_found = |line: &String| line.contains("memory_buffer_max (8MiB) is more than all memory buffers together");
    assert!(warnings.iter().any(is_found), "{warnings:?}");
}
