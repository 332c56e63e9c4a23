//! The data that a script gets from its request: variables, arguments, descriptors.

use sluice_testing::{Server, Setup};

/// A script that prints its variables.
const SHOW: &str = r"printf 'Content-Type: text/plain\n\n'; exec env";

fn server() -> Server {
    let setup = Setup::new().script("show", SHOW).script("deep/er/show", SHOW);
    setup.site("hosts = [\"example.org\"]").start()
}

#[test]
fn script_gets_the_variables_of_rfc_3875() {
    let server = server();
    let mut client = server.connect();
    client.send(
        "GET /cgi-bin/show/path/info?a=b&c HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: test/1.0\r\nX-Some-Thing: value\r\n\r\n",
    );
    let response = client.response();
    let (directory, address) = (server.path("htdocs").display().to_string(), server.address());
    for (name, value) in [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_PORT", address.port().to_string().as_str()),
        ("SERVER_ADDR", "127.0.0.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_HOST", "127.0.0.1"),
        ("REMOTE_PORT", client.address().port().to_string().as_str()),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_SCHEME", "http"),
        ("REQUEST_URI", "/cgi-bin/show/path/info?a=b&c"),
        ("SCRIPT_NAME", "/cgi-bin/show"),
        ("SCRIPT_FILENAME", format!("{directory}/cgi-bin/show").as_str()),
        ("PATH_INFO", "/path/info"),
        ("PATH_TRANSLATED", format!("{directory}/path/info").as_str()),
        ("DOCUMENT_ROOT", directory.as_str()),
        ("QUERY_STRING", "a=b&c"),
        ("HTTP_HOST", "example.org:8080"),
        ("HTTP_USER_AGENT", "test/1.0"),
        ("HTTP_X_SOME_THING", "value"),
        ("CGIPLUSIN", "/dev/fd/3"),
        ("CGIPLUSBUF", "/dev/fd/4"),
        ("WWW_GATEWAY_MRS", "65536"),
        ("WWW_FORM_A", "b"),
    ] {
        assert_eq!(response.variable(name), Some(value), "{name} in\n{}", response.text());
    }
    let software = response.variable("SERVER_SOFTWARE").unwrap_or_default();
    assert!(software.starts_with("Sluice/"), "{software}");
    for name in [
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
        "AUTH_TYPE",
        "REMOTE_USER",
        "CGIPLUSEOF",
        "HTTPS",
        "HTTP_CONNECTION",
    ] {
        assert_eq!(response.variable(name), None, "{name}");
    }
}

#[test]
fn query_string_is_set_even_when_empty() {
    let server = server();
    let response = server.get("/cgi-bin/show");
    assert_eq!(response.variable("QUERY_STRING"), Some(""));
    assert_eq!(response.variable("PATH_INFO"), None);
    assert_eq!(response.variable("PATH_TRANSLATED"), None);
    assert_eq!(server.get("/cgi-bin/show?").variable("QUERY_STRING"), Some(""));
    assert_eq!(server.get("/cgi-bin/show/").variable("PATH_INFO"), Some("/"));
}

#[test]
fn body_sets_content_length_and_type() {
    let server = server();
    let response = server.send(
        "POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\nContent-Type: text/x; charset=y\r\n\r\nabc",
    );
    assert_eq!(response.variable("CONTENT_LENGTH"), Some("3"));
    assert_eq!(response.variable("CONTENT_TYPE"), Some("text/x; charset=y"));
    assert_eq!(response.variable("HTTP_CONTENT_LENGTH"), None);
    assert_eq!(response.variable("HTTP_CONTENT_TYPE"), None);
    let empty = server.send("POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert!(matches!(empty.variable("CONTENT_LENGTH"), None | Some("0")));
}

#[test]
fn path_info_is_decoded_and_the_query_is_not() {
    let server = server();
    let response = server.get("/cgi-bin/show/a%20b/%C3%A4/c%3Fd?e%20f=%41+g");
    assert_eq!(response.variable("PATH_INFO"), Some("/a b/ä/c?d"));
    assert_eq!(response.variable("QUERY_STRING"), Some("e%20f=%41+g"));
    assert_eq!(
        response.variable("REQUEST_URI"),
        Some("/cgi-bin/show/a%20b/%C3%A4/c%3Fd?e%20f=%41+g")
    );
    assert_eq!(response.variable("SCRIPT_NAME"), Some("/cgi-bin/show"));
}

#[test]
fn path_info_cannot_leave_the_root() {
    let server = server();
    let response = server.get("/cgi-bin/show/a/../../show/b/%2e%2e/c");
    assert_eq!(response.variable("PATH_INFO"), Some("/c"));
    let root = server.path("htdocs").display().to_string();
    assert_eq!(response.variable("PATH_TRANSLATED"), Some(format!("{root}/c").as_str()));
}

#[test]
fn path_translated_follows_the_routes_of_the_site() {
    let setup = Setup::new().script("show", SHOW);
    std::fs::create_dir(setup.path("pictures")).unwrap();
    let directory = setup.path("pictures").display().to_string();
    let server = setup
        .route("path = \"/pictures/*\"\nfiles = { directory = \"pictures\" }")
        .start();
    let response = server.get("/cgi-bin/show/pictures/a.png");
    assert_eq!(
        response.variable("PATH_TRANSLATED"),
        Some(format!("{directory}/a.png").as_str())
    );
}

#[test]
fn repeated_fields_are_joined() {
    let server = server();
    let response = server.send(
        "GET /cgi-bin/show HTTP/1.1\r\nHost: test\r\nX-List: a\r\nCookie: one=1\r\nX-List: b\r\nCookie: two=2\r\n\r\n",
    );
    assert_eq!(response.variable("HTTP_X_LIST"), Some("a, b"));
    assert_eq!(response.variable("HTTP_COOKIE"), Some("one=1; two=2"));
}

#[test]
fn http_1_0_is_the_server_protocol() {
    let server = server();
    let response = server.send("GET /cgi-bin/show HTTP/1.0\r\n\r\n");
    assert_eq!(response.variable("SERVER_PROTOCOL"), Some("HTTP/1.0"));
    assert!(response.variable("SERVER_NAME").is_some_and(|name| !name.is_empty()));
}

#[test]
fn keywords_of_a_query_are_variables_and_no_arguments_by_default() {
    let server = Setup::new()
        .script(
            "show",
            r#"printf 'Content-Type: text/plain\n\nARGUMENTS=%s\n' "$#"; env"#,
        )
        .script(
            "reads.pl",
            "#!/usr/bin/env perl\nprint \"Content-Type: text/plain\\n\\nread: \"; print while <>;\n",
        )
        .start();
    let response = server.get("/cgi-bin/show?one+two%20three");
    assert_eq!(response.variable("ARGUMENTS"), Some("0"));
    assert_eq!(response.variable("WWW_KEY_COUNT"), Some("2"));
    assert_eq!(response.variable("WWW_KEY_2"), Some("two three"));
    // Perl's `<>` runs an argument that ends in `|` as a command, and reads any other as a file.
    for query in ["id|", "/etc/hostname"] {
        let response = server.get(&format!("/cgi-bin/reads.pl?{query}"));
        assert_eq!((response.status, response.text()), (200, "read: "), "{query}");
    }
}

#[test]
fn keywords_of_a_query_are_arguments_where_the_route_says_so() {
    let server = Setup::new()
        .cgi("arguments = true")
        .script(
            "show",
            r#"printf 'Content-Type: text/plain\n\n'; for word in "$@"; do echo "[$word]"; done; env"#,
        )
        .start();
    let arguments = |path: &str| -> Vec<String> {
        let response = server.get(path);
        let words = response.text().lines().filter(|line| line.starts_with('['));
        words.map(|line| line.trim_matches(['[', ']']).to_owned()).collect()
    };
    assert_eq!(
        arguments("/cgi-bin/show?one+two%20three+a%3db"),
        ["one", "two three", "a=b"]
    );
    assert_eq!(
        arguments("/cgi-bin/show?$(id)+%3Bid+%60id%60"),
        ["$(id)", ";id", "`id`"]
    );
    for none in ["", "?", "?a=b", "?a+b=c", "?-s", "?a+%2ds", "?a%00"] {
        assert_eq!(
            arguments(&format!("/cgi-bin/show{none}")),
            Vec::<String>::new(),
            "{none}"
        );
    }
    let response = server.get("/cgi-bin/show?one+two%20three");
    assert_eq!(response.variable("WWW_KEY_COUNT"), Some("2"));
    assert_eq!(response.variable("WWW_KEY_2"), Some("two three"));
    let posted = server.send("POST /cgi-bin/show?one+two HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert!(
        !posted.text().contains("[one]"),
        "arguments are for GET and HEAD (RFC 3875 §4.4)"
    );
}

#[test]
fn variable_prefix_applies_to_every_request_variable() {
    let server = Setup::new()
        .script("show", SHOW)
        .cgi("variable_prefix = \"WWW_\"")
        .start();
    let response = server.get("/cgi-bin/show/info?a=b");
    assert_eq!(response.variable("WWW_PATH_INFO"), Some("/info"));
    assert_eq!(response.variable("WWW_REQUEST_METHOD"), Some("GET"));
    assert_eq!(response.variable("WWW_HTTP_HOST"), Some("test"));
    assert_eq!(response.variable("WWW_FORM_A"), Some("b"));
    for name in ["PATH_INFO", "REQUEST_METHOD", "HTTP_HOST", "WWW_WWW_FORM_A"] {
        assert_eq!(response.variable(name), None, "{name}");
    }
}

#[test]
fn environment_has_the_route_variables_and_none_of_the_server() {
    let server = Setup::new()
        .script("show", SHOW)
        .environment("SECRET", "of the server")
        .environment("LANG", "C")
        .environment("SPECIAL", "inherited")
        .environment("LD_LIBRARY_PATH", "/none")
        .script_route(
            "/special/*",
            "directory = \"htdocs/cgi-bin\", environment = { WIKI_DATA = \"/var/lib/wiki\" }",
        )
        .start();
    let response = server.get("/special/show");
    assert_eq!(response.variable("WIKI_DATA"), Some("/var/lib/wiki"));
    assert_eq!(response.variable("LANG"), Some("C"));
    assert!(response.variable("PATH").is_some());
    for name in ["SECRET", "LD_LIBRARY_PATH", "SPECIAL"] {
        assert_eq!(response.variable(name), None, "{name}");
    }
    assert_eq!(server.get("/cgi-bin/show").variable("WIKI_DATA"), None);
}

#[test]
fn script_has_exactly_five_descriptors() {
    let server = Setup::new()
        .script("show", r"printf 'Content-Type: text/plain\n\n'; exec ls /proc/self/fd")
        .start();
    let response = server.get("/cgi-bin/show");
    // 5 is the directory that ls reads.
    assert_eq!(response.text(), "0\n1\n2\n3\n4\n5\n");
}

#[test]
fn script_runs_in_its_own_directory_and_process_group() {
    let server = Setup::new()
        .script(
            "deep/show",
            r"printf 'Content-Type: text/plain\n\n'; echo PWD=$(pwd -P); echo PID=$$; echo GROUP=$(cut -d' ' -f5 /proc/$$/stat)",
        )
        .start();
    let response = server.get("/cgi-bin/deep/show");
    let directory = server.path("htdocs/cgi-bin/deep").canonicalize().unwrap();
    assert_eq!(response.variable("PWD"), directory.to_str());
    assert_eq!(response.variable("GROUP"), response.variable("PID"));
}

#[test]
fn script_without_a_request_body_reads_end_of_file() {
    let server = Setup::new()
        .script("count", r"printf 'Content-Type: text/plain\n\n'; wc -c")
        .start();
    assert_eq!(server.get("/cgi-bin/count").text().trim(), "0");
    assert_eq!(server.post("/cgi-bin/count", "").text().trim(), "0");
}

#[test]
fn script_name_includes_subdirectories() {
    let server = server();
    let response = server.get("/cgi-bin/deep/er/show/more/info");
    assert_eq!(response.variable("SCRIPT_NAME"), Some("/cgi-bin/deep/er/show"));
    assert_eq!(response.variable("PATH_INFO"), Some("/more/info"));
    let file = server.path("htdocs/cgi-bin/deep/er/show").display().to_string();
    assert_eq!(response.variable("SCRIPT_FILENAME"), Some(file.as_str()));
}

#[test]
fn unusual_methods_reach_the_script_unchanged() {
    let server = server();
    for method in ["PUT", "DELETE", "PROPFIND", "M-SEARCH", "get"] {
        let response = server.send(format!(
            "{method} /cgi-bin/show HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(response.variable("REQUEST_METHOD"), Some(method));
    }
}

#[test]
fn unique_id_does_not_count_requests() {
    let server = Setup::new().workers(1).script("show", SHOW).start();
    let number = || {
        let id = server.get("/cgi-bin/show").variable("UNIQUE_ID").unwrap().to_owned();
        i64::from_str_radix(&id[8..], 16).unwrap()
    };
    let numbers: Vec<i64> = (0..4).map(|_| number()).collect();
    assert!(
        numbers.windows(2).all(|pair| (pair[1] - pair[0]).abs() > 1000),
        "{numbers:x?}"
    );
}

#[test]
fn scripts_have_a_home_a_user_and_a_search_path_of_absolute_directories() {
    let server = Setup::new()
        .script("show", SHOW)
        .environment("PATH", "bin:.:/usr/local/bin:/usr/bin:/bin:")
        .environment("HOME", "/elsewhere")
        .environment("USER", "somebody")
        .start();
    let id = std::process::Command::new("id").arg("-un").output().unwrap();
    let name = String::from_utf8(id.stdout).unwrap().trim().to_owned();
    let response = server.get("/cgi-bin/show");
    assert_eq!(response.variable("PATH"), Some("/usr/local/bin:/usr/bin:/bin"));
    assert_eq!(response.variable("USER"), Some(name.as_str()));
    assert_eq!(response.variable("LOGNAME"), Some(name.as_str()));
    let home = response.variable("HOME").unwrap();
    assert!(home.starts_with('/') && home != "/elsewhere", "{home}");
}

#[test]
fn the_route_sets_each_variable_that_the_server_does_not_set() {
    let keys = "environment = { REMOTE_USER = \"anna\", AUTH_TYPE = \"Basic\", HOME = \"/h\", http_proxy = \"p\", SERVER_ADMIN = \"a\" }";
    let server = Setup::new().script("show", SHOW).cgi(keys).start();
    let response = server.get("/cgi-bin/show");
    for (name, value) in [
        ("REMOTE_USER", "anna"),
        ("AUTH_TYPE", "Basic"),
        ("HOME", "/h"),
        ("http_proxy", "p"),
        ("SERVER_ADMIN", "a"),
    ] {
        assert_eq!(response.variable(name), Some(value), "{name}");
    }
}

#[test]
fn only_php_gets_redirect_status() {
    let server = Setup::new()
        .script("show", SHOW)
        .file_with_mode("cgi-bin/page.php", format!("#!/bin/sh\n{SHOW}"), 0o755)
        .file("cgi-bin/page.inc", SHOW)
        .script("php-like", "exec /bin/sh \"$@\"")
        .cgi("interpreters = { \".inc\" = \"htdocs/cgi-bin/php-like\" }")
        .start();
    assert_eq!(server.get("/cgi-bin/show").variable("REDIRECT_STATUS"), None);
    assert_eq!(server.get("/cgi-bin/page.php").variable("REDIRECT_STATUS"), Some("200"));
    assert_eq!(server.get("/cgi-bin/page.inc").variable("REDIRECT_STATUS"), Some("200"));
}
