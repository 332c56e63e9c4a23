//! Routes: messages about mistakes, in each route and in several together; the description of valid ones.

use super::super::describe;
use super::messages::{assert_mistake, with_route};
use super::read;

/// A file whose only site has these routes, the first on line 4, each on a line of its own.
fn with_routes(routes: &[&str]) -> String {
    format!("[[site]]\nroot = 'a'\nroute = [\n{{ {} }},\n]", routes.join(" },\n{ "))
}

#[test]
fn invalid_values_of_a_route_are_refused() {
    let cases = [
        (
            "regex = '^/a(b'\nredirect = { to = '/b' }",
            "4: regex = '^/a(b': unclosed group, at \"(b\"",
        ),
        (
            "regex = '^/a'\npath = '/a'\nredirect = { to = '/b' }",
            "4: regex = '^/a': the route has a path already: keep one of them",
        ),
        (
            "regex = '^/a'\nfiles = { directory = 'a' }",
            "4: regex: files needs a path with a \"*\", which says what to look up: use rewrite = \"/…\" here, and a route with such a path below",
        ),
        (
            "regex = '^/a/(.*)'\nrewrite = '/b/$2'",
            "5: rewrite = '/b/$2': $2 receives nothing, because the regex has only 1 group; a \"$\" itself is written \"$$\"",
        ),
        (
            "path = '/a/*'\nredirect = { to = '/b/$3' }",
            "5: to = '/b/$3': $3 receives nothing, because path has only 1 \"*\"; a \"$\" itself is written \"$$\"",
        ),
        (
            "path = '/a/*'\nredirect = { to = '/b/${x}' }",
            "5: to = '/b/${x}': ${x}: there is no group of that name, (?<x>…), in a regex",
        ),
        (
            "path = '/a*'\nredirect = { to = 'https://example.org*' }",
            "5: to = 'https://example.org*': the client could choose the host: write \"/\" before it, or a host's name after it (\".example.org\")",
        ),
        (
            "path = '/a/*'\nrewrite = 'https://example.org/*'",
            "5: rewrite = 'https://example.org/*': must be a path, \"/…\"; only a redirect leads to another host",
        ),
        (
            "path = '/a'\nrefuse = { status = 302 }",
            "5: status = 302: must be at least 400; those are the statuses of errors; redirect has others",
        ),
        (
            "path = '/a'\nrefuse = { retry_after = '10ms' }",
            "5: retry_after = '10ms': must be at least 1s; it is sent in whole seconds",
        ),
        (
            "path = '/a/*'\nexpires = 'soon'",
            "5: expires = 'soon': must be a duration, as in \"1h\", or \"no-cache\", \"no-store\", \"immutable\" or \"off\"",
        ),
        (
            "path = '/a/*'\nheaders = { set = { 'X A' = '1' } }",
            "5: set: \"X A\" is not a field name such as \"X-Frame-Options\"",
        ),
        (
            "path = '/a/*'\nheaders = { add = { X-A = \"1\\n2\" } }",
            "5: add: \"X-A\": its value must be printable ASCII, without a blank at either end",
        ),
        (
            "path = '/a/*'\nheaders = { remove = ['Content-Length'] }",
            "5: remove = ['Content-Length']: \"Content-Length\" belongs to the server, because it describes how the message is sent",
        ),
        (
            "path = '/a/*'\nheaders = { set = { Content-Encoding = 'gzip' } }",
            "5: set: \"Content-Encoding\" belongs to the server, because it describes how the message is sent",
        ),
        (
            "path = '/a/*'\nheaders = { remove = 'Vary' }",
            "5: remove = 'Vary': \"Vary\" lists the fields by which the response varies: add to it, below add",
        ),
        (
            "path = '/a/*'\nheaders = { set = { ETag = '\"1\"' } }",
            "5: set: \"ETag\" identifies a version, and would be the same for all: remove it, or leave it as it is",
        ),
        (
            "path = '/a/*'\nheaders = { set = { X-A = '1', x-a = '2' } }",
            "5: set: \"x-a\" is set twice, differing only in case: remove one",
        ),
        (
            "path = '/a'\nrefuse = { status = 405 }",
            "5: a 405 response must have the field Allow: write headers = { set = { Allow = \"GET, HEAD\" } } beside it, or another status",
        ),
        (
            "path = '/a'\nrefuse = { status = 401 }\nheaders = { set = { Allow = 'GET' } }",
            "5: a 401 response must have the field WWW-Authenticate: write headers = { set = { WWW-Authenticate = \"Basic\" } } beside it, or another status",
        ),
        (
            "path = '/a/../b'\nrefuse = {}",
            "4: path = '/a/../b': a path never contains the segment \"..\", because it is normalized before it is compared: write the normalized path",
        ),
        (
            "path = '/a'\nredirect = { to = 'https://example.org${query}' }",
            "5: to = 'https://example.org${query}': the client could choose the host by its query: write \"/\" or \"?\" before it",
        ),
        (
            "path = '/a/*'\nlimits = { body = 1 }",
            "5: unknown key \"body\" in [[site.route]].limits; did you mean \"body_size\"?",
        ),
    ];
    for (route, message) in cases {
        assert_mistake(&with_route(route), message);
    }
}

#[test]
fn conditions_that_cannot_hold_are_refused() {
    let cases = [
        (
            "method = 'get'",
            "method = 'get': \"get\": methods are case-sensitive: write \"GET\"",
        ),
        (
            "method = ['GET', '!GET']",
            "method = ['GET', '!GET']: can never hold, because what it asks for is excluded by a \"!\": remove one of them",
        ),
        (
            "method = []",
            "method = []: an empty list fits nothing: leave it out for anything",
        ),
        (
            "method = 1",
            "method = 1: must be a text or a list of texts, as in method = [\"GET\", \"HEAD\"]",
        ),
        (
            "host = 'a.org:80'",
            "host = 'a.org:80': \"a.org:80\": a host is written without port: write \"a.org\"",
        ),
        (
            "client = ['10.1.2.3/8']",
            "client = ['10.1.2.3/8']: \"10.1.2.3/8\": has bits beyond its first 8: write \"10.0.0.0/8\"",
        ),
        (
            "client = ['10.1.0.0/16', '!10.0.0.0/8']",
            "client = ['10.1.0.0/16', '!10.0.0.0/8']: can never hold, because what it asks for is excluded by a \"!\": remove one of them",
        ),
        ("scheme = 'ftp'", "scheme = 'ftp': must be \"http\" or \"https\""),
        (
            "header = { 'User Agent' = '*' }",
            "header: \"User Agent\" is not a field name such as \"User-Agent\"",
        ),
        ("header = { Cookie = 1 }", "Cookie = 1: must be a text: write \"1\""),
        (
            "",
            "when = {}: always holds: remove it, or add a condition, as in when = { method = \"POST\" }",
        ),
    ];
    for (when, message) in cases {
        let text = with_route(&format!("path = '/a'\nwhen = {{ {when} }}\nrefuse = {{}}"));
        assert_mistake(&text, &format!("5: {message}"));
    }
}

#[test]
fn routes_hidden_by_an_earlier_one_are_refused() {
    let hidden = |first: &str, second: &str| {
        let text = format!("[[site]]\nroot = 'a'\nroute = [\n{first},\n{second},\n]");
        read(&text).map(drop).map_err(|errors| errors.to_string())
    };
    let files = |path: &str| format!("{{ path = '{path}', files = {{ directory = 'b' }} }}");
    let program = |path: &str| format!("{{ path = '{path}', script = {{ file = 'wiki' }} }}");
    let script = |path: &str| format!("{{ path = '{path}', script = {{}} }}");
    let redirect = |path: &str| format!("{{ path = '{path}', redirect = {{ to = '/z' }} }}");
    assert_eq!(
        hidden(&files("/a/*"), &files("/a/b/*")),
        Err("sluice.toml:5: path = \"/a/b/*\": never matches, because \"/a/*\" on line 4 comes first: put this route above it".into())
    );
    assert!(
        hidden(&script("*.cgi"), &redirect("/x.cgi/more")).is_err(),
        "PATH_INFO belongs to the script"
    );
    assert_eq!(hidden(&files("/a/b/*"), &files("/a/*")), Ok(()));
    assert!(
        hidden(&files("/a/*"), &redirect("/a")).is_err(),
        "a directory answers for its path without slash"
    );
    assert!(
        hidden(&redirect("/a/*"), &files("/a/*")).is_err(),
        "and so does every other route"
    );
    assert_eq!(
        hidden(&redirect("/a/*.do"), &redirect("/a")),
        Ok(()),
        "this pattern has no path without slash"
    );
    let refuse = |path: &str| format!("{{ path = '{path}', refuse = {{}} }}");
    assert!(
        hidden(&refuse("/a.cgi"), &script("/a.cgi")).is_err(),
        "everything below a refused path is refused"
    );
    assert!(
        hidden(&script("*.cgi"), &refuse("/a.cgi/info")).is_err(),
        "PATH_INFO belongs to the script"
    );
    assert_eq!(
        hidden(&redirect("*.cgi"), &script("*.cgi")),
        Ok(()),
        "the redirect leaves paths with PATH_INFO"
    );
    assert_eq!(
        hidden(&program("/z"), &redirect("/*")),
        Ok(()),
        "the first route breaks the loop"
    );
}

#[test]
fn a_misspelt_key_of_a_route_is_the_only_mistake() {
    for (route, message) in [
        (
            "path = '/a/*'\nfiles = { directory = 'a' }\naccess = { users = 'u', allow_writes = ['user:ann'] }",
            r#"6: unknown key "allow_writes" in [[site.route]].access; did you mean "allow_write"?"#,
        ),
        (
            "path = '/a/*'\nacces = { allow = ['all'] }",
            r#"5: unknown key "acces" in [[site.route]]; did you mean "access"?"#,
        ),
    ] {
        assert_mistake(&with_route(route), message);
    }
}

#[test]
fn unreachable_routes_are_refused() {
    let refuse = "path = '/a/*', refuse = {}";
    let never = |shown: &str, first: &str| {
        format!("5: {shown}: never matches, because \"{first}\" on line 4 comes first: put this route above it")
    };
    for (first, second, shown, by) in [
        (
            refuse,
            "path = '/a/b', redirect = { to = '/c' }",
            "path = \"/a/b\"",
            "/a/*",
        ),
        // Routes that only change something as well.
        (refuse, "path = '/a/b', expires = '1h'", "path = \"/a/b\"", "/a/*"),
        (
            "path = '/*', refuse = {}",
            "regex = 'x', log = false",
            "regex = 'x'",
            "/*",
        ),
        (
            "path = '/*', when = { method = 'PUT' }, refuse = {}",
            "path = '/a', when = { method = 'PUT' }, refuse = {}",
            "path = \"/a\"",
            "/*",
        ),
        (
            "regex = '^/a', refuse = {}",
            "regex = '^/a', when = { method = 'PUT' }, redirect = { to = '/c' }",
            "regex = '^/a'",
            "regex ^/a",
        ),
    ] {
        assert_mistake(&with_routes(&[first, second]), &never(shown, by));
    }
    for (first, second) in [
        // A route with a condition leaves other requests.
        ("path = '/*', when = { method = 'PUT' }, refuse = {}", refuse),
        // A route that continues leaves every request.
        ("path = '/*', expires = '1h'", refuse),
        ("path = '/*', rewrite = '/b/*'", refuse),
        ("regex = '^/', refuse = {}", refuse),
        (
            "regex = '^/a', when = { method = 'PUT' }, refuse = {}",
            "regex = '^/a', refuse = {}",
        ),
        ("regex = '^/a', log = false", "regex = '^/a', refuse = {}"),
    ] {
        read(&with_routes(&[first, second])).unwrap_or_else(|errors| panic!("{errors}"));
    }
    let rewritten = [
        refuse,
        "path = '/b', rewrite = '/a/b'",
        "path = '/a/b', script = { file = 'wiki' }",
    ];
    assert!(read(&with_routes(&rewritten)).is_ok(), "the rewrite leads there");
}

#[test]
fn a_last_route_that_only_rewrites_is_refused() {
    let without_root =
        |last: &str| format!("[[site]]\nroute = [\n{{ path = '/a', refuse = {{}} }},\n{{ path = '/b', {last} }},\n]");
    assert_mistake(
        &without_root("rewrite = '/a'"),
        "4: this route only rewrites the path, and no route follows that could answer: put it above the routes that it leads to, or give the site root = \"htdocs\"",
    );
    let quiet = read(&without_root("log = false"));
    assert!(quiet.is_ok(), "it applies to the 404 response");
}

#[test]
fn redirect_loops_are_refused() {
    let to = |path: &str, to: &str| format!("path = '{path}', redirect = {{ to = '{to}' }}");
    let is_loop = |routes: &[&str], messages: &[&str]| {
        let result = read(&with_routes(routes))
            .map(drop)
            .map_err(|errors| errors.to_string());
        let expected: Vec<String> = messages
            .iter()
            .map(|message| format!("sluice.toml:{message}"))
            .collect();
        assert_eq!(result, Err(expected.join("\n")), "{routes:?}");
    };
    let (there, back) = (to("/a", "/b"), to("/b", "/a?x"));
    let leads = |line: usize, to: &str, next: usize| {
        format!(
            "{line}: redirect to \"{to}\" leads to the one on line {next}, and finally back here, an endless loop: change one of them"
        )
    };
    is_loop(&[&there, &back], &[&leads(4, "/b", 5), &leads(5, "/a?x", 4)]);
    let (old, new) = (to("/old/*", "/new/$1"), to("/new/*", "/old/*"));
    is_loop(&[&old, &new], &[&leads(4, "/new/$1", 5), &leads(5, "/old/*", 4)]);
    // Through a rewrite and a regular expression, without a star.
    let (first, second) = (to("/a", "/r"), "regex = '^/c$', redirect = { to = '/a' }");
    is_loop(
        &[&first, "path = '/r', rewrite = '/c'", second],
        &[&leads(4, "/r", 6), &leads(6, "/a", 4)],
    );
    for routes in [
        // A condition may end the loop.
        [
            there.as_str(),
            "path = '/b', when = { method = 'GET' }, redirect = { to = '/a' }",
        ],
        [there.as_str(), "path = '/b', refuse = {}"],
        // The query leads to another path.
        [
            "path = '/', redirect = { to = '/go?start' }",
            "path = '/go', redirect = { to = '/${query}' }",
        ],
        // Another host.
        [
            there.as_str(),
            "path = '/b', redirect = { to = 'https://example.org/a' }",
        ],
        [
            "regex = '^/b/x', refuse = {}",
            "path = '/b/*', when = { scheme = 'http' }, redirect = { to = '/b/*' }",
        ],
    ] {
        read(&with_routes(&routes)).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

#[test]
fn routes_are_described_in_columns() {
    let text = with_routes(&[
        "path = '/*', headers = { set = { X-A = '1' }, remove = 'Server' }, expires = '1h', log = false",
        "when = { method = ['PUT', 'DELETE'], client = '!10.0.0.0/8', header = { Cookie = '!*' }, query = { a = 'b*' } }, refuse = { status = 409, text = 'no' }",
        "regex = '^/u/(\\d+)$', rewrite = '/user?id=$1'",
        "path = '/up/*', limits = { body_size = '4MiB', body_timeout = '1m' }, expires = 'off'",
    ]);
    let settings = read(&text).unwrap_or_else(|errors| panic!("{errors}"));
    let description = describe(&settings);
    let (_, routes) = description.split_once("any host\n").expect("a site");
    assert_eq!(
        routes,
        "  /*                set         server removed, x-a: 1, expires max-age=3600, not logged
  /*                refuse 409  no, when method PUT or DELETE, client other than 10.0.0.0/8, header cookie \"!*\", query a \"b*\"
  regex ^/u/(\\d+)$  rewrite     /user?id=$1
  /up/*             set         expires off, bodies up to 4MiB, bodies silent for up to 1m
  /*                files       /etc/sluice/a\n"
    );
}
