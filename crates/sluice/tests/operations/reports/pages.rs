//! The pages: each as HTML and as JSON, and what keeps them from others.

use super::{LOCAL, ask, get, json, names, setup};
use sluice_testing::{Authority, Setup, curl, run, wait_until};

/// Elements without an end tag (HTML, "Void elements").
const VOID: [&str; 7] = ["meta", "link", "br", "input", "img", "hr", "!doctype"];

/// Fails the test unless every element of a page is closed, in the right order.
#[track_caller]
fn assert_well_formed(page: &str, name: &str) {
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag
            .split_once('>')
            .unwrap_or_else(|| panic!("{name}: an open tag <{tag}"));
        let element = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed.to_owned()), "{name}: </{closed}>"),
            None if VOID.contains(&element.to_ascii_lowercase().as_str()) || tag.ends_with('/') => {}
            None => open.push(element.to_owned()),
        }
    }
    assert_eq!(open, Vec::<String>::new(), "{name}");
}

#[test]
fn each_page_is_html_and_json_of_the_same_value() {
    let server = setup().start();
    let first = get(&server, "/-/");
    assert_eq!(first.status, 200, "{}", first.text());
    let pages = names(first.text());
    assert!(
        pages.contains(&String::new()) && pages.contains(&"action".to_owned()),
        "{pages:?}"
    );
    for name in &pages {
        let page = get(&server, &format!("/-/{name}"));
        assert_eq!(page.status, 200, "{name}: {}", page.text());
        assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"), "{name}");
        assert_eq!(page.field("cache-control"), Some("no-store"), "{name}");
        let policy = page.field("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_well_formed(page.text(), name);
        for refused in ["<style", "style=", "onclick", "<script>", "javascript:"] {
            assert!(!page.text().contains(refused), "{name}: {refused}");
        }
        let current = if name.is_empty() { "./" } else { name };
        assert!(
            page.text()
                .contains(&format!("href=\"{current}\" aria-current=\"page\"")),
            "{name}"
        );
        if !page.text().contains(".json\">JSON</a>") {
            continue;
        }
        let path = if name.is_empty() { "overview" } else { name };
        assert!(json(&server, &format!("/-/{path}.json")).is_object(), "{name}");
        assert!(json(&server, &format!("/-/{name}?format=json")).is_object(), "{name}");
        let accepted = ask(&server, "GET", &format!("/-/{name}"), "Accept: application/json\r\n");
        assert_eq!(accepted.field("content-type"), Some("application/json"), "{name}");
    }
}

#[test]
fn files_of_the_pages_are_served_beside_them() {
    let server = setup().start();
    for (name, content_type, begin) in [
        ("report.css", "text/css; charset=utf-8", "/*"),
        ("report.js", "text/javascript; charset=utf-8", "//"),
    ] {
        let file = get(&server, &format!("/-/{name}"));
        assert_eq!((file.status, file.field("content-type")), (200, Some(content_type)));
        assert!(file.text().starts_with(begin), "{}", file.text());
    }
    let bare = get(&server, "/-");
    assert_eq!((bare.status, bare.field("location")), (301, Some("/-/")));
}

#[test]
fn unknown_pages_and_methods_are_refused() {
    let server = setup().start();
    for path in ["/-/none", "/-/none.json", "/-/a/b"] {
        assert_eq!(get(&server, path).status, 404, "{path}");
    }
    assert_eq!(get(&server, "/-/overview").status, 200);
    let post = ask(&server, "POST", "/-/", "Content-Length: 0\r\n");
    assert_eq!((post.status, post.field("allow")), (405, Some("GET, HEAD")));
    let put = ask(&server, "PUT", "/-/action", "Content-Length: 0\r\n");
    assert_eq!((put.status, put.field("allow")), (405, Some("GET, HEAD, POST")));
    let (page, head) = (get(&server, "/-/"), ask(&server, "HEAD", "/-/", ""));
    assert_eq!(head.status, 200);
    assert!(page.field("content-length").is_some() && head.field("content-length").is_some());
}

#[test]
fn the_overview_counts_what_happens() {
    let server = setup().file("a.txt", "text").start();
    get(&server, "/a.txt");
    get(&server, "/nothing");
    let counted = || {
        let overview = json(&server, "/-/overview.json");
        let classes = &overview["requests"]["by_class"];
        classes[1].as_u64() > Some(0) && classes[3].as_u64() == Some(1)
    };
    assert!(wait_until(counted), "{}", json(&server, "/-/overview.json"));
    let overview = json(&server, "/-/overview.json");
    assert_eq!(overview["pid"], server.server_pid());
    assert_eq!(overview["workers"], 2);
    assert!(
        overview["configuration"].as_str().unwrap().ends_with("sluice.toml"),
        "{overview}"
    );
    // Each second is noted, so that the chart of the last minute grows.
    let has_seconds = || {
        json(&server, "/-/overview.json")["minute"]["requests"]
            .as_array()
            .unwrap()
            .len()
            > 1
    };
    assert!(wait_until(has_seconds));
}

#[test]
fn only_those_who_may_have_reports_get_them() {
    let elsewhere = "path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:192.0.2.0/24\"] }";
    let server = Setup::new().route(elsewhere).start();
    for path in ["/-/", "/-/overview.json", "/-/report.js", "/-/none", "/-"] {
        let refused = get(&server, path);
        assert_eq!(refused.status, 403, "{path}");
        assert!(!refused.text().contains("Overview"), "{path}");
    }
}

#[test]
fn other_names_and_proxies_are_refused_without_a_user() {
    let server = setup().start();
    let by_host = |host: &str, fields: &str| {
        let request = format!("GET /-/ HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        server.send(request).status
    };
    let port = server.address().port();
    for host in ["localhost", "127.0.0.1", &format!("127.0.0.1:{port}"), "app.localhost"] {
        assert_eq!(by_host(host, ""), 200, "{host}");
    }
    // A page of such a host could read the answer after its name was changed to this address (DNS rebinding).
    for host in ["evil.test", "localhost.evil.test", "192.0.2.1"] {
        assert_eq!(by_host(host, ""), 403, "{host}");
    }
    // A proxy of this machine that nobody has named, whose clients may be anybody.
    for field in ["X-Forwarded-For: 192.0.2.1\r\n", "Via: 1.1 proxy\r\n"] {
        assert_eq!(by_host("localhost", field), 403, "{field}");
    }
    server.log_line("reports are not shown under the host \"evil.test\"");
}

#[test]
fn a_live_page_is_sent_again_and_again_and_ends_with_the_server() {
    let server = setup().start();
    let mut client = server.connect();
    client.send("GET /-/?live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.head();
    assert_eq!(
        (head.status, head.field("content-type")),
        (200, Some("text/event-stream"))
    );
    for _ in 0..2 {
        client.take_through(b"event: content\n");
        client.take_through(b"requests a second");
    }
    // An endless response does not keep a draining server.
    server.stop();
}

#[test]
fn reports_are_served_over_http2() {
    let listeners = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }";
    let setup = setup().listeners(listeners);
    Authority::new().issue_to(&setup.path("default.pem"), &["localhost"]);
    let server = setup.start();
    let address = format!("https://{}/-/", server.tls_address());
    let page = curl(&[
        "--insecure",
        "--http2",
        "--write-out",
        "|%{http_version} %{http_code}",
        &address,
    ]);
    assert!(page.contains("<h1>Overview</h1>") && page.ends_with("|2 200"), "{page}");
}

#[test]
fn a_route_with_reports_must_say_who_may_have_them() {
    for (route, words) in [
        (
            "path = \"/-/*\"\nreports = true",
            "the same route must say who may have them",
        ),
        (
            "path = \"/-/*\"\nreports = true\naccess = false",
            "the same route must say who may have them",
        ),
        ("path = \"/-/*\"\nreports = false", "a route without an answer"),
        (
            "path = \"/-/*\"\nreports = true\naccess = { allow = [\"all\"] }",
            "lets everybody who reaches this address read paths and users",
        ),
        (
            "path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:::1\"], allow_write = [\"all\", \"!net:10.0.0.0/8\"] }",
            "end the server: name users",
        ),
        (
            "path = \"/status\"\nreports = true\naccess = { allow = [\"net:::1\"] }",
            "write path = \"/-/*\"",
        ),
    ] {
        let setup = Setup::new().route(route);
        setup.write_configuration();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert_eq!(ran.status.code(), Some(1), "{route}");
        assert!(ran.errors.contains(words), "{route}: {}", ran.errors);
    }
    let wide = "path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:0.0.0.0/0\"] }";
    for (route, is_wide) in [(wide, true), (LOCAL, false)] {
        let setup = Setup::new().route(route);
        setup.write_configuration();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert!(ran.status.success(), "{}", ran.errors);
        let warns = ran
            .errors
            .contains("let a large part of the Internet read paths and users");
        assert_eq!(warns, is_wide, "{route}: {}", ran.errors);
    }
    let setup = Setup::new().route(LOCAL);
    setup.write_configuration();
    let explained = run(
        setup.directory(),
        &["check", "-c", "sluice.toml", "--explain", "/-/overview.json"],
    );
    assert!(
        explained.output.contains("report overview.json"),
        "{}",
        explained.output
    );
}

#[test]
fn a_script_of_this_machine_gets_totals_only() {
    let loopback = "[\"net:127.0.0.0/8\", \"net:::1\"]";
    let route = |write: &str| format!("path = \"/-/*\"\nreports = true\naccess = {{ allow = {loopback}{write} }}");
    let server = Setup::new().route(&route("")).start();
    let page = get(&server, "/-/");
    assert_eq!(page.status, 200);
    assert!(
        page.text().contains("statistics") && !page.text().contains("\"logs\""),
        "{}",
        page.text()
    );
    for name in [
        "overview.json",
        "statistics",
        "activity",
        "cache",
        "configuration.json",
        "environment",
        "metrics",
    ] {
        assert_eq!(get(&server, &format!("/-/{name}")).status, 200, "{name}");
    }
    for name in [
        "action",
        "action.json",
        "logs.json",
        "logs?live",
        "requests",
        "scripts.json",
        "connections",
        "access",
        "watch",
        "watch-events",
        "watch-text?once=on",
    ] {
        let refused = get(&server, &format!("/-/{name}"));
        assert_eq!(refused.status, 403, "{name}");
        assert!(
            refused.text().contains("Scripts are clients of this machine"),
            "{}",
            refused.text()
        );
    }
    let post = "POST /-/action HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\naction=drain";
    let refused = server.send(post);
    assert!(
        refused.status == 403 && refused.text().contains("Scripts are clients"),
        "{}",
        refused.text()
    );
    server.log_line("name users in access at");

    let allowed = route(&format!(", allow_write = {loopback}"));
    for (route, warns) in [(route(""), false), (allowed, true)] {
        let setup = Setup::new().script("a", "#!/bin/sh\n").route(&route);
        setup.write_configuration();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert_eq!(
            ran.errors
                .contains("so each can read the logs, watch requests, and end the server"),
            warns,
            "{route}: {}",
            ran.errors
        );
    }
}

#[test]
fn a_served_directory_has_reports_for_this_machine_only() {
    // The harness asks for a file under this name.
    let arguments = ["serve", "htdocs", "--host", "test", "--listen", "127.0.0.1:0"];
    let server = Setup::new().start_with(&arguments);
    assert_eq!(get(&server, "/-/").status, 200);
    let other = "GET /-/ HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    assert_eq!(server.send(other).status, 421);
    drop(server);
    let open = Setup::new().start_with(&[&arguments[..], &["--listen", "0.0.0.0:0"]].concat());
    assert_eq!(get(&open, "/-/").status, 404);
}
