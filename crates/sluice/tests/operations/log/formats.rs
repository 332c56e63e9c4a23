//! Line formats: format strings checked character by character, the named formats, and escaping of hostile input.

use std::time::{SystemTime, UNIX_EPOCH};

use sluice_testing::{Server, Setup, run};

/// The `[log]` keys for this format on standard output.
fn format(format: &str) -> String {
    format!("access = \"-\"\nformat = '{format}'")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn format_directives_mean_the_same_as_in_apache() {
    let server = Setup::new()
        .log(&format(
            "%h|%a|%{c}a|%A|%l|%u|%r|%m|%U|%q|%H|%s|%>s|%b|%B|%O|%v|%V|%p|%{remote}p|%P|%{X-A}i|%{No}i|\
             %{Content-Type}o|%{Content-Length}o|%{No}o|%R|%f|%X|%200{X-A}i|%!200{X-A}i|100%%",
        ))
        .site("hosts = [\"one.example\", \"two.example\"]")
        .file("a/b.txt", "hello")
        .start();
    let mut client = server.connect();
    client
        .send("GET /a/b.txt?c=%20d HTTP/1.1\r\nHost: Two.example:99\r\nX-A: first\r\nX-A: \"second\"\r\n\r\n")
        .response();
    let (port, file) = (server.address().port(), server.path("htdocs/a/b.txt"));
    assert_eq!(
        server.access_lines(1),
        [format!(
            "127.0.0.1|127.0.0.1|127.0.0.1|127.0.0.1|-|-|GET /a/b.txt?c=%20d HTTP/1.1|GET|/a/b.txt|?c=%20d|HTTP/1.1|200|200|\
             5|5|5|one.example|Two.example|{port}|{}|{}|first, \\\"second\\\"|-|text/plain; charset=utf-8|5|-|file|{}|+|\
             first, \\\"second\\\"|-|100%",
            client.address().port(),
            server.server_pid(),
            file.canonicalize().unwrap().display(),
        )]
    );
}

#[test]
fn scripts_redirects_and_faults_are_distinguished() {
    let setup = Setup::new()
        .log(&format(
            r#""%r" %>s %b %R %{Location}o %{X-Own}o %404{User-Agent}i %X %f"#,
        ))
        .script("own", r"printf 'Content-Type: text/plain\nX-Own: a\tb\n\nhello'")
        .script("none", r"printf 'Status: 204\n\n'")
        .script("local", r"printf 'Location: /a.txt\n\n'")
        .file("a.txt", "a")
        .route("path = \"/old\"\nredirect = { to = \"/new\" }")
        .route("path = \"/wiki/*\"\nredirect = { to = \"http://example.org/*\" }");
    let root = setup.path("htdocs").canonicalize().unwrap();
    let root = root.display();
    // One worker, so that lines of several connections keep their order.
    let server = setup.workers(1).start();
    let mut client = server.connect();
    for path in ["/cgi-bin/own/more", "/cgi-bin/none", "/cgi-bin/local", "/old", "/none"] {
        client
            .send(format!("GET {path} HTTP/1.1\r\nHost: test\r\nUser-Agent: curl\r\n\r\n"))
            .response();
    }
    server.send("GET /a.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    server.send("nonsense\r\n\r\n");
    let expected = [
        format!(r#""GET /cgi-bin/own/more HTTP/1.1" 200 5 script - a\tb - + {root}/cgi-bin/own"#),
        format!(r#""GET /cgi-bin/none HTTP/1.1" 204 - script - - - + {root}/cgi-bin/none"#),
        format!(r#""GET /cgi-bin/local HTTP/1.1" 200 1 file - - - + {root}/a.txt"#),
        r#""GET /old HTTP/1.1" 302 - redirect /new - - + -"#.to_owned(),
        r#""GET /none HTTP/1.1" 404 "#.to_owned(),
        format!(r#""GET /a.txt HTTP/1.1" 200 1 file - - - - {root}/a.txt"#),
        r#""- / HTTP/1.1" 400 - - - - - - -"#.to_owned(),
    ];
    let lines = server.access_lines(expected.len());
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
    assert!(
        lines[4].ends_with(&format!(" file - - curl + {root}/none")),
        "{}",
        lines[4]
    );
}

#[test]
fn every_time_format_is_supported() {
    let server = Setup::new()
        .log(&format(
            "%{sec}t %{msec}t %{usec}t %{msec_frac}t %{usec_frac}t %{end:msec}t %D %{ms}T %T %{%Y-%m-%d}t %L %{UNIQUE_ID}e%t",
        ))
        .script("slow", r"printf 'Content-Type: text/plain\n\nslow'")
        .start();
    let before = now();
    server.get("/cgi-bin/slow");
    let line = server.access_lines(1).swap_remove(0);
    let (line, clf) = line.split_once('[').unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("{at} in {line}"));
    assert!((before..=now()).contains(&number(0)), "{line}");
    assert_eq!((number(1) / 1000, number(2) / 1000), (number(0), number(1)), "{line}");
    assert_eq!(
        (number(1) % 1000, number(2) % 1_000_000),
        (number(3), number(4)),
        "{line}"
    );
    assert_eq!((words[3].len(), words[4].len()), (3, 6), "{line}");
    assert!(
        number(6) > 0 && number(6) / 1000 == number(7) && number(7) / 1000 == number(8),
        "{line}"
    );
    let took = number(5) - number(1);
    assert!((number(7)..=number(7) + 1).contains(&took), "{line}");
    assert!(words[9].starts_with("20") && words[9].len() == 10, "{line}");
    assert_eq!(words[10], words[11]);
    // Widths of the parts of 21/Nov/2026:06:55:40 +0000]
    let parts: Vec<usize> = clf.split(['/', ':', ' ']).map(str::len).collect();
    assert_eq!(parts, [2, 3, 4, 2, 2, 2, 6], "{clf}");
}

#[test]
fn times_are_in_the_time_zone_of_the_server() {
    // A POSIX zone, and a named zone if the system has time zone data, as Debian has.
    let has_zone_data = std::path::Path::new("/usr/share/zoneinfo/Asia/Kolkata").exists();
    assert!(
        has_zone_data || std::env::var_os("SLUICE_TEST_REQUIRE_ALL").is_none(),
        "there is no /usr/share/zoneinfo: install tzdata"
    );
    let zones = [("EST5", "-0500 EST"), ("Asia/Kolkata", "+0530 IST")];
    for (zone, expected) in zones.iter().filter(|(zone, _)| has_zone_data || !zone.contains('/')) {
        let server = Setup::new().log(&format("%{%z %Z}t")).environment("TZ", zone).start();
        server.get("/none");
        assert_eq!(server.access_lines(1), [*expected], "{zone}");
    }
}

/// A server with one site for each named format.
fn server_with_every_format() -> Server {
    let site = |name: &str| {
        format!(
            "[[site]]\nhosts = [\"{name}.example\"]\nroot = \"htdocs\"\nlog = {{ access = \"{name}.log\", format = \"{name}\" }}\n"
        )
    };
    let sites: String = ["common", "combined", "vhost-combined", "json"].map(site).concat();
    Setup::new().file("a.txt", "hello").sites(&sites).start()
}

/// The only line of a file, once it is written.
#[track_caller]
fn line_of(server: &Server, name: &str) -> String {
    let read = || std::fs::read_to_string(server.path(name)).unwrap();
    assert!(sluice_testing::wait_until(|| read().ends_with('\n')), "{name} is empty");
    let text = read();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn named_formats_match_what_log_analysers_expect() {
    let server = server_with_every_format();
    let form = |name: &str| {
        server.send(format!(
            "GET /a.txt?b HTTP/1.1\r\nHost: {name}.example\r\nReferer: http://x/\r\nUser-Agent: curl\r\n\r\n"
        ));
        line_of(&server, &format!("{name}.log"))
    };
    let without_time = |line: &str| {
        let (front, rest) = line.split_once('[').unwrap();
        let (_, rest) = rest.split_once(']').unwrap();
        format!("{front}[]{rest}")
    };
    let own = r#"127.0.0.1 - - [] "GET /a.txt?b HTTP/1.1" 200 5"#;
    assert_eq!(without_time(&form("common")), own);
    let combined = form("combined");
    let (front, id) = combined.rsplit_once(' ').unwrap();
    assert_eq!(without_time(front), format!(r#"{own} "http://x/" "curl""#));
    assert_eq!(id.len(), 21, "{id}");
    let vhost = form("vhost-combined");
    let (front, _) = vhost.rsplit_once(' ').unwrap();
    let port = server.address().port();
    assert_eq!(
        without_time(front),
        format!(r#"vhost-combined.example:{port} {own} "http://x/" "curl""#)
    );
    assert!(form("json").ends_with(r#","referer":"http://x/","agent":"curl"}"#));
}

#[test]
fn clients_and_scripts_cannot_forge_lines_or_close_quotes() {
    let server = Setup::new()
        .log(&format(r#""%r" "%U" "%q" "%V" "%{User-Agent}i" "%{X-Out}o" "%f" end"#))
        .script(
            "out",
            r#"printf 'Content-Type: text/plain\nX-Out: a"b\\c\033[31m\011\377\n\nout'"#,
        )
        .start();
    for request in [
        "GET /a%0d%0aforged%22 HTTP/1.1\r\nHost: test\r\nUser-Agent: \" forged \"\r\n\r\n",
        "GET /\u{e4}\"?\"%0a HTTP/1.1\r\nHost: test\r\nUser-Agent: \\\" \\\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\"b\r\nUser-Agent: tab\there \u{9b}31m\u{85}\u{2028}\r\n\r\n",
        "GET /cgi-bin/out HTTP/1.1\r\nHost: test\r\n\r\n",
        "G\"T /x HTTP/1.1\r\nHost: test\r\n\r\n",
    ] {
        server.send(request);
    }
    let lines = server.stop().access;
    assert_eq!(lines.len(), 5, "{lines:#?}");
    for line in lines {
        assert!(line.starts_with('"') && line.ends_with("\" end"), "{line}");
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
        // Only the seven pairs of quotes of the format itself are unescaped.
        let plain = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(plain.matches('"').count(), 14, "{line}");
    }
}

#[test]
fn check_reports_the_position_of_an_error_in_a_format() {
    let setup = Setup::new().log("format = '%h %t %y'");
    setup.write_configuration();
    let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors
            .contains("format = '%h %t %y': at character 7: %y is not a directive"),
        "{}",
        ran.errors
    );
    let ran = run(setup.directory(), &["serve", "htdocs", "--log-format", "%{Referer"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        ran.errors.contains("at character 1: a { without its }"),
        "{}",
        ran.errors
    );
}

#[test]
fn completed_and_aborted_exchanges_are_distinguished_for_every_body() {
    let server = Setup::new()
        .log(&format("%m %U %X"))
        .cache("file_size = \"16MiB\"")
        .file("kept", vec![b'k'; 16_000_000])
        .file("read", vec![b'r'; 32_000_000])
        .file("small", "small")
        .age("kept")
        .script(
            "counted",
            "printf 'Content-Type: text/plain\\nContent-Length: 400000\\n\\n'; head -c 400000 /dev/zero",
        )
        .start();
    let mut number = 0;
    let mut state = || {
        number += 1;
        server.access_lines(number).remove(number - 1)
    };
    for (path, bytes) in [
        ("/kept", 16_000_000),
        ("/kept", 16_000_000),
        ("/read", 32_000_000),
        ("/small", 5),
        ("/cgi-bin/counted", 400_000),
    ] {
        let mut client = server.connect();
        assert_eq!(client.get(path).response().body.len(), bytes);
        assert_eq!(state(), format!("GET {path} +"));
    }
    let part = "GET /read HTTP/1.1\r\nHost: test\r\nRange: bytes=0-1,5-6\r\n\r\n";
    assert_eq!(server.send(part).status, 206);
    assert_eq!(state(), "GET /read +");
    for path in ["/kept", "/read"] {
        let mut client = server.connect();
        client.get(path).head();
        drop(client);
        assert_eq!(state(), format!("GET {path} X"));
    }
}
