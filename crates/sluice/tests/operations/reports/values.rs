//! The values of the pages: what they say after something has happened.

use super::{ask, get, json, setup};
use sluice_testing::{Authority, Server, curl, run, wait_until};

/// Whether a member of the statistics has a value.
fn counts(server: &Server, list: &str, name: &str, count: u64) -> bool {
    json(server, "/-/statistics.json")[list][name] == count
}

#[track_caller]
fn assert_counts(server: &Server, expected: &[(&str, &str, u64)]) {
    for (list, name, count) in expected {
        let has = wait_until(|| counts(server, list, name, *count));
        assert!(has, "{list} {name} {count}: {}", json(server, "/-/statistics.json"));
    }
}

#[test]
fn the_statistics_count_exchanges_by_method_status_and_answer() {
    let server = setup()
        .file("a.txt", "0123456789")
        .script("who", "printf 'Content-Type: text/plain\\n\\nx'")
        .route("path = \"/old\"\nredirect = { to = \"/a.txt\" }")
        .start();
    for _ in 0..3 {
        server.get("/a.txt");
    }
    ask(&server, "HEAD", "/a.txt", "");
    ask(&server, "BREW", "/a.txt", "");
    server.get("/old");
    server.get("/none");
    server.get("/cgi-bin/who");
    server.get("/cgiplus-bin/who");
    server.post("/cgi-bin/who", "hello");
    assert_counts(
        &server,
        &[
            ("answers", "file", 4),
            ("answers", "cgi", 2),
            ("answers", "redirect", 1),
            // 404, 405, and 502 for a script that does not speak CGIplus.
            ("answers", "error", 3),
            ("methods", "HEAD", 1),
            ("methods", "POST", 1),
            ("methods", "other", 1),
            ("statuses", "404", 1),
            ("statuses", "405", 1),
            ("statuses", "302", 1),
        ],
    );
    let statistics = json(&server, "/-/statistics.json");
    assert_eq!(statistics["received_bytes"], 5, "{statistics}");
    for times in ["first_byte", "whole"] {
        let count = statistics[times]["count"].as_u64().unwrap();
        assert!(count >= 10, "{statistics}");
        let of = |number: usize| statistics[times]["percentiles"][number]["seconds"].as_f64().unwrap();
        assert!(0.0 < of(0) && of(0) <= of(3) && of(3) < 120.0, "{statistics}");
    }
    let page = get(&server, "/-/statistics");
    assert!(
        page.text().contains("<svg") && page.text().contains("99.9 %"),
        "{}",
        page.text()
    );
}

#[test]
fn the_statistics_begin_again_and_the_metrics_do_not() {
    let server = setup().file("a.txt", "text").start();
    server.get("/a.txt");
    assert_counts(&server, &[("answers", "file", 1)]);
    let token = json(&server, "/-/action.json")["token"].as_str().unwrap().to_owned();
    let body = format!("action=reset-statistics&token={token}&page=statistics");
    let head = format!(
        "POST /-/action HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    assert_eq!(server.send(head + &body).status, 200);
    server.log_line("reset-statistics by client 127.0.0.1");
    assert!(json(&server, "/-/statistics.json")["answers"]["file"].is_null());
    let metrics = get(&server, "/-/metrics");
    assert!(
        metrics
            .text()
            .contains("sluice_http_responses_by_answer_total{answer=\"file\"} 1\n"),
        "{}",
        metrics.text()
    );
}

#[test]
fn responses_that_never_were_have_no_times_and_live_pages_are_complete() {
    let server = setup().python("slow", sluice_testing::SLOW).start();
    let (begun, _gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    server.connect().send("BLAH\r\n\r\n").response();
    let mut leaving = server.connect();
    leaving.get("/cgi-bin/slow?silent");
    begun.line();
    drop(leaving);
    for _ in 0..2 {
        let mut live = server.connect();
        live.send("GET /-/?live HTTP/1.1\r\nHost: localhost\r\n\r\n");
        live.take_through(b"event: content\n");
    }
    assert_counts(&server, &[("statuses", "499", 1), ("statuses", "400", 1)]);
    assert!(wait_until(|| json(&server, "/-/requests.json")["total"] == 1));
    let statistics = json(&server, "/-/statistics.json");
    assert_eq!(statistics["first_byte"]["count"], 0, "{statistics:#}");
    assert_eq!(statistics["whole"]["count"], 0, "{statistics:#}");
    // That of the script was broken off, those of the page were not.
    assert!(statistics["truncated"].as_u64().unwrap() <= 1, "{statistics:#}");
}

#[test]
fn a_reload_lets_no_counter_of_the_metrics_fall() {
    let server = setup().file("a.txt", "text").age("a.txt").start();
    let hits = || {
        let metrics = get(&server, "/-/metrics");
        let line = metrics
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("sluice_cache_hits_total "));
        line.unwrap().parse::<f64>().unwrap()
    };
    assert!(wait_until(|| {
        server.get("/a.txt");
        hits() > 0.0
    }));
    let before = hits();
    assert!(run(server.setup().directory(), &["reload"]).status.success());
    assert!(hits() >= before, "{before} before, {} now", hits());
}

#[test]
fn encryption_and_versions_are_counted() {
    let listeners = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }";
    let setup = setup().listeners(listeners).file("a.txt", "text");
    Authority::new().issue_to(&setup.path("default.pem"), &["localhost"]);
    let server = setup.start();
    let address = format!("https://{}/a.txt", server.tls_address());
    curl(&["--insecure", "--http2", &address]);
    curl(&["--insecure", "--http1.1", "--tls-max", "1.2", &address]);
    assert_counts(
        &server,
        &[
            ("versions", "HTTP/2", 1),
            ("encryption", "TLSv1.3", 1),
            ("encryption", "TLSv1.2", 1),
        ],
    );
}

#[test]
fn the_cache_page_shows_its_files_and_empties_it() {
    let server = setup()
        .file("a.txt", "0123456789")
        .age("a.txt")
        .file("gone.txt", "x")
        .start();
    let cached = || {
        server.get("/a.txt");
        json(&server, "/-/cache.json")["largest"][0]["bytes"] == 10
    };
    assert!(wait_until(cached), "{}", json(&server, "/-/cache.json"));
    let often = || {
        server.get("/a.txt");
        !json(&server, "/-/cache.json")["most_used"]
            .as_array()
            .unwrap()
            .is_empty()
    };
    assert!(wait_until(often), "{}", json(&server, "/-/cache.json"));
    let cache = json(&server, "/-/cache.json");
    assert!(
        cache["largest"][0]["path"].as_str().unwrap().ends_with("htdocs/a.txt"),
        "{cache}"
    );
    assert!(run(server.setup().directory(), &["purge"]).status.success());
    assert_eq!(json(&server, "/-/cache.json")["files"], 0);
}

#[test]
fn the_configuration_has_its_places_and_no_secrets() {
    let secret = "path = \"/s/*\"\nwhen = { header = { X-Token = \"hunter2\" } }\nrefuse = { status = 403 }";
    let server = setup().route(secret).start();
    let configuration = json(&server, "/-/configuration.json");
    let routes = configuration["sites"][0]["routes"].as_array().unwrap();
    let reports = routes.iter().find(|route| route["action"] == "reports").unwrap();
    assert!(
        reports["origin"].as_str().unwrap().starts_with("sluice.toml:"),
        "{reports}"
    );
    assert!(!configuration.to_string().contains("hunter2"), "{configuration}");
    assert!(!get(&server, "/-/configuration").text().contains("hunter2"));
    // After a reload it is the new one.
    let file = server.path("sluice.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("path = \"/s/*\"", "path = \"/other/*\"")).unwrap();
    assert!(run(server.setup().directory(), &["reload"]).status.success());
    assert!(json(&server, "/-/configuration.json").to_string().contains("/other/*"));
}

#[test]
fn the_environment_describes_machine_and_program() {
    let server = setup().start();
    let environment = json(&server, "/-/environment.json");
    assert!(
        environment["hardware"]["memory_bytes"].as_u64() > Some(1 << 20),
        "{environment}"
    );
    assert!(
        environment["hardware"]["processors_usable"].as_u64() > Some(0),
        "{environment}"
    );
    assert_eq!(environment["process"]["pid"], server.server_pid());
    assert!(
        environment["process"]["descriptors"].as_u64() > Some(3),
        "{environment}"
    );
    let limits = environment["limits"].as_array().unwrap();
    assert!(
        limits.iter().any(|limit| limit["name"] == "Max open files"),
        "{environment}"
    );
    assert_eq!(environment["program"]["version"], env!("CARGO_PKG_VERSION"));
    let libraries = environment["program"]["libraries"].as_array().unwrap();
    assert!(
        libraries.iter().all(|library| library["version"] != "unknown"),
        "{environment}"
    );
    assert_eq!(environment["engines"].as_array().unwrap().len(), 3, "{environment}");
    assert!(environment["rating"].is_null(), "{environment}");
    let rated = run(
        server.setup().directory(),
        &["rate", "--samples", "1", "--time", "50ms"],
    );
    assert!(rated.status.success(), "{}", rated.errors);
    let rating = &json(&server, "/-/environment.json")["rating"];
    assert!(rating["exercises"][0]["average"].as_f64() > Some(0.0), "{rating}");
    assert!(get(&server, "/-/environment").text().contains("MB/s of SHA-256"));
}
