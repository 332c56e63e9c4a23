//! HTTP/2, over TLS and in clear text: the same files and scripts as by HTTP/1.1.

use crate::harness::{Authority, Server, Setup, curl};

const LISTENERS: &str = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }\n\
    [[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"";

const ECHO: &str = "printf 'Content-Type: text/plain\\n\\n%s %s ' \"$SERVER_PROTOCOL\" \"$REQUEST_METHOD\"; cat";

fn server() -> Server {
    let large: String = (0..200_000).map(|number| format!("{number},")).collect();
    let setup = Setup::new()
        .file("a.txt", "hello")
        .file("large.txt", large)
        .age("large.txt")
        .script("echo", ECHO)
        .script("fails", "exit 3")
        .listeners(LISTENERS);
    Authority::new().issue_to(&setup.path("default.pem"), &["localhost"]);
    setup.start()
}

/// How curl reaches the server: over TLS, and in clear text with prior knowledge.
fn ways(server: &Server) -> [(String, &'static str); 2] {
    let clear = server
        .addresses()
        .into_iter()
        .find(|address| address.contains("127.0.0.2"))
        .unwrap();
    [
        (format!("https://{}/", server.tls_address()), "--http2"),
        (clear, "--http2-prior-knowledge"),
    ]
}

#[test]
fn files_and_scripts_answer_as_by_http_1() {
    let server = server();
    for (address, option) in ways(&server) {
        let ask = |path: &str, more: &[&str]| {
            let address = format!("{address}{path}");
            let arguments = [
                &[
                    "--insecure",
                    option,
                    "--write-out",
                    "|%{http_version} %{http_code}",
                    &address,
                ][..],
                more,
            ];
            curl(&arguments.concat())
        };
        assert_eq!(ask("a.txt", &[]), "hello|2 200");
        assert_eq!(ask("none", &["--output", "/dev/null"]), "|2 404");
        assert_eq!(ask("cgi-bin/echo", &["--data", "body"]), "HTTP/2.0 POST body|2 200");
        assert_eq!(ask("cgiplus-bin/fails", &["--output", "/dev/null"]), "|2 502");
        for _ in 0..3 {
            let large = ask("large.txt", &[]);
            assert!(
                large.len() > 1_000_000 && large.ends_with("199999,|2 200"),
                "{} bytes",
                large.len()
            );
        }
    }
}

#[test]
fn a_client_that_speaks_http_1_is_answered_on_the_same_addresses() {
    let server = server();
    for (address, _) in ways(&server) {
        let told = curl(&[
            "--insecure",
            "--http1.1",
            "--write-out",
            "|%{http_version}",
            &format!("{address}a.txt"),
        ]);
        assert_eq!(told, "hello|1.1");
    }
}

#[test]
fn uploads_larger_than_every_window_arrive_whole() {
    let server = server();
    let body = "0123456789".repeat(300_000);
    std::fs::write(server.path("upload"), &body).unwrap();
    let upload = format!("@{}", server.path("upload").display());
    for (address, option) in ways(&server) {
        let told = curl(&[
            "--insecure",
            option,
            "--data-binary",
            &upload,
            &format!("{address}cgi-bin/echo"),
        ]);
        assert!(
            told == format!("HTTP/2.0 POST {body}"),
            "{} bytes came back",
            told.len()
        );
    }
}

#[test]
fn many_exchanges_share_a_connection() {
    let server = server();
    // Over TLS alone: in clear text some versions of curl break their own connections when they share them.
    let (address, option) = ways(&server)[0].clone();
    let urls: Vec<String> = (0..40)
        .map(|number| format!("{address}cgi-bin/echo?{number}"))
        .collect();
    let format = "|%{http_code} %{num_connects};";
    let mut arguments = vec![
        "--insecure",
        option,
        "--parallel",
        "--parallel-max",
        "40",
        "--write-out",
        format,
    ];
    arguments.extend(urls.iter().map(String::as_str));
    let told = curl(&arguments);
    assert_eq!(told.matches("HTTP/2.0 GET ").count(), 40, "{told}");
    assert_eq!(told.matches("|200 ").count(), 40, "{told}");
}

#[test]
fn a_connection_ends_in_good_order_when_the_server_does() {
    let server = server();
    let (address, option) = ways(&server)[0].clone();
    let mut gate = server.setup().gate("go");
    let told = server.setup().listen("told");
    crate::harness::write_script(
        &server.path("htdocs/cgi-bin/waits"),
        "echo here > \"$FOLDER/told\"; read line < \"$FOLDER/go\"; printf 'Content-Type: text/plain\\n\\ndone'",
    );
    let url = format!("{address}cgi-bin/waits");
    let asked = std::thread::spawn(move || curl(&["--insecure", option, &url]));
    told.line();
    server.signal("TERM");
    server.log_line("draining");
    gate.open();
    assert_eq!(asked.join().unwrap(), "done");
    server.wait_end();
}
