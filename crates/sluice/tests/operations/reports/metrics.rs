//! `metrics`: the OpenMetrics text, and the dashboard that uses its names.

use std::collections::{BTreeMap, BTreeSet};

use sluice_testing::{Server, Setup};

use super::{get, setup};

/// Suffixes of the samples of a family (OpenMetrics 1.0).
const SUFFIXES: [&str; 5] = ["_total", "_bucket", "_sum", "_count", "_info"];

/// The names of the samples of a text.
fn samples(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn the_text_is_openmetrics() {
    let server = setup().file("a.txt", "text").start();
    server.get("/a.txt");
    let response = get(&server, "/-/metrics");
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(
        (response.status, response.field("content-type")),
        (200, Some(content_type))
    );
    let text = response.text();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, value) = line.rsplit_once(' ').unwrap();
        assert!(sample.starts_with("sluice_"), "{line}");
        assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
        // Each sample belongs to a family that was declared before.
        let name = sample.split('{').next().unwrap();
        let family = SUFFIXES
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        assert!(text.contains(&format!("# TYPE {family} ")), "no type of {family}");
    }
}

#[test]
fn the_dashboard_uses_the_names_of_the_server() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/sluice.json");
    let text = std::fs::read_to_string(path).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let server = two_sites().start();
    server.get("/cgi-bin/reads?200");
    let known = || {
        let text = get(&server, "/-/metrics").text().to_owned();
        // Families without a sample yet.
        let declared = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"));
        let declared: Vec<String> = declared.map(|name| format!("{name}_total")).collect();
        samples(&text).into_iter().chain(declared).collect::<BTreeSet<_>>()
    };
    let known = known();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    let mut used = BTreeSet::new();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let expression = target["expr"].as_str().unwrap();
        let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        used.extend(words.filter(|word| word.starts_with("sluice_")).map(str::to_owned));
    }
    let unknown: Vec<_> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not among {known:#?}");
}

#[test]
fn programs_that_do_not_know_openmetrics_get_the_older_format() {
    let server = setup().file("a.txt", "text").start();
    server.get("/a.txt");
    let host = format!("Host: {}", server.address());
    let of_accept =
        |accept: &str| server.send(format!("GET /-/metrics HTTP/1.1\r\n{host}\r\nAccept: {accept}\r\n\r\n"));
    let prometheus =
        of_accept("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1");
    assert!(
        prometheus.text().ends_with("# EOF\n"),
        "Prometheus itself takes OpenMetrics"
    );
    for response in [of_accept("text/plain"), get(&server, "/-/metrics?format=prometheus")] {
        assert_eq!(
            response.field("content-type"),
            Some("text/plain; version=0.0.4; charset=utf-8")
        );
        let text = response.text();
        assert!(
            !text.contains("# EOF") && !text.contains("# UNIT") && !text.contains(" info\n"),
            "{text}"
        );
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix));
            let is_declared =
                |name: &str| text.contains(&format!("# TYPE {name} ")) && text.contains(&format!("# HELP {name} "));
            assert!(
                is_declared(name) || family.is_some_and(is_declared),
                "{name} in\n{text}"
            );
        }
    }
}

#[test]
fn the_alert_rules_use_the_names_of_the_server() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/prometheus/sluice.rules.yml"
    );
    let rules = std::fs::read_to_string(path).unwrap();
    let certificate = sluice_testing::Authority::new();
    let setup = setup().script("hello", "printf 'Content-Type: text/plain\n\nhello'");
    certificate.issue_to(&setup.path("c.pem"), &["localhost"]);
    let server = setup
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"c.pem\" }")
        .start();
    server.get("/none");
    server.get("/cgi-bin/hello");
    let known = samples(get(&server, "/-/metrics").text());
    let expressions: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .collect();
    assert!(expressions.len() > 5, "{rules}");
    for expression in expressions {
        let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let unknown: Vec<&str> = words
            .filter(|word| word.starts_with("sluice_") && !known.contains(*word))
            .collect();
        assert!(
            unknown.is_empty(),
            "{unknown:?} of {expression} are not among {known:#?}"
        );
    }
    let names = rules.matches("- alert: ").count();
    assert_eq!(
        (rules.matches("expr: ").count(), rules.matches("summary: ").count()),
        (names, names)
    );
}

/// A second site, and a script that reads its request body.
fn two_sites() -> Setup {
    setup()
        .script(
            "reads",
            "cat >/dev/null; printf 'Status: %s\\nContent-Type: text/plain\\n\\nfour' \"$QUERY_STRING\"",
        )
        .file("a.txt", "text of a")
        .sites("[[site]]\nhosts = [\"b.test\"]\nroot = \"htdocs\"")
}

fn metrics(server: &Server) -> String {
    get(server, "/-/metrics").text().to_owned()
}

/// The value of a sample. A sample that is missing counts as 0.
fn value(metrics: &str, sample: &str) -> u64 {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

#[test]
fn the_exchanges_of_each_site_and_script_are_counted() {
    let server = two_sites().start();
    let ask_b = |path: &str| server.send(format!("GET {path} HTTP/1.1\r\nHost: b.test\r\n\r\n"));
    assert_eq!(ask_b("/a.txt").text(), "text of a");
    assert_eq!(ask_b("/none").status, 404);
    assert_eq!(server.post("/cgi-bin/reads?201", "twelve bytes").status, 201);
    assert_eq!(server.post("/cgi-bin/reads?503", "1").status, 503);
    assert_eq!(server.send("GET / HTTP/1.1\r\nHost: a b\r\n\r\n").status, 400);
    // An exchange is counted before its line is written.
    server.access_lines(5);
    let text = metrics(&server);
    let reads = server.path("htdocs/cgi-bin/reads");
    let script = format!("site=\"*\",script=\"{}\",mode=\"cgi\"", reads.display());
    let error = ask_b("/none").body.len() as u64;
    for (sample, expected) in [
        ("sluice_site_responses_total{site=\"b.test\",class=\"2xx\"}", 1),
        ("sluice_site_responses_total{site=\"b.test\",class=\"4xx\"}", 1),
        ("sluice_site_responses_total{site=\"b.test\",class=\"5xx\"}", 0),
        ("sluice_site_response_body_bytes_total{site=\"b.test\"}", 9 + error),
        ("sluice_site_request_body_bytes_total{site=\"b.test\"}", 0),
        ("sluice_site_responses_total{site=\"*\",class=\"5xx\"}", 1),
        ("sluice_site_request_body_bytes_total{site=\"*\"}", 13),
        ("sluice_site_responses_total{site=\"-\",class=\"4xx\"}", 1),
        (&*format!("sluice_script_responses_total{{{script},class=\"2xx\"}}"), 1),
        (&*format!("sluice_script_responses_total{{{script},class=\"5xx\"}}"), 1),
        (&*format!("sluice_script_request_body_bytes_total{{{script}}}"), 13),
        (&*format!("sluice_script_response_body_bytes_total{{{script}}}"), 8),
    ] {
        assert!(text.contains(sample), "no {sample} in\n{text}");
        assert_eq!(value(&text, sample), expected, "{sample} in\n{text}");
    }
    assert_eq!(text.matches("sluice_script_request_body_bytes_total{").count(), 1);
}

#[test]
fn the_counts_of_a_site_go_on_after_a_reload_that_moves_or_removes_it() {
    let server = two_sites().start();
    let ask_b = || server.send("GET /a.txt HTTP/1.1\r\nHost: b.test\r\n\r\n");
    ask_b();
    let own = |sites: &str| {
        let configuration = server.setup().configuration();
        let (before, _) = configuration.split_once("[[site]]\nhosts").unwrap();
        std::fs::write(server.path("sluice.toml"), format!("{before}{sites}")).unwrap();
        server.signal("HUP");
    };
    own("[[site]]\nhosts = [\"c.test\"]\nroot = \"htdocs\"\n[[site]]\nhosts = [\"b.test\"]\nroot = \"htdocs\"\n");
    server.log_line("is in force");
    ask_b();
    server.access_lines(2);
    let sample = |site: &str| format!("sluice_site_responses_total{{site=\"{site}\",class=\"2xx\"}}");
    let text = metrics(&server);
    assert_eq!(
        (value(&text, &sample("b.test")), value(&text, &sample("c.test"))),
        (2, 0),
        "{text}"
    );
    own("[[site]]\nhosts = [\"c.test\"]\nroot = \"htdocs\"\n");
    server.log_lines(2, "is in force");
    server.send("GET /a.txt HTTP/1.1\r\nHost: c.test\r\n\r\n");
    server.access_lines(4);
    let text = metrics(&server);
    assert_eq!(
        (value(&text, &sample("b.test")), value(&text, &sample("c.test"))),
        (2, 1),
        "{text}"
    );
}

/// The rules of `promtool check metrics` (Prometheus 2.42, `util/promlint`) on a text of the older format.
fn problems(text: &str) -> Vec<String> {
    let of = |kind: &str| -> BTreeMap<&str, &str> {
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("# ")?.strip_prefix(kind));
        lines.filter_map(|line| line.trim_start().split_once(' ')).collect()
    };
    let (types, helps) = (of("TYPE"), of("HELP"));
    let mut problems = Vec::new();
    for (name, kind) in &types {
        let mut must = |holds: bool, rule: &str| {
            if !holds {
                problems.push(format!("{name}: {rule}"));
            }
        };
        must(helps.get(name).is_some_and(|help| !help.is_empty()), "no help text");
        must(
            (*kind == "counter") == name.ends_with("_total"),
            "counters alone end with _total",
        );
        for suffix in ["_bucket", "_sum", "_count"] {
            must(
                !name.ends_with(suffix),
                "only histograms and summaries have such samples",
            );
        }
        must(!name.contains(kind), "its name has its type");
        must(
            name.chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'),
            "letters",
        );
        for word in name.split('_') {
            let is_other_unit = [
                "milliseconds",
                "minutes",
                "hours",
                "kilobytes",
                "kib",
                "mb",
                "percent",
                "celsius_degrees",
                "ms",
                "sec",
            ];
            must(!is_other_unit.contains(&word), "not a base unit, or an abbreviation");
        }
    }
    let names: BTreeSet<String> = samples(text);
    let declared = |name: &str| {
        let histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix));
        types.contains_key(name) || histogram.is_some_and(|name| types.get(name) == Some(&"histogram"))
    };
    problems.extend(names.into_iter().filter(|name| !declared(name)));
    let mut seen = BTreeSet::new();
    let series = text.lines().filter(|line| !line.starts_with('#'));
    problems.extend(
        series
            .filter_map(|line| line.rsplit_once(' '))
            .filter(|(series, _)| !seen.insert(*series))
            .map(|(series, _)| format!("{series} twice")),
    );
    problems
}

#[test]
fn the_older_format_is_clean_by_the_rules_of_promtool() {
    let server = two_sites().start();
    server.post("/cgi-bin/reads?200", "body");
    let text = get(&server, "/-/metrics?format=prometheus").text().to_owned();
    assert!(text.contains("sluice_script_response_body_bytes_total{"), "{text}");
    assert_eq!(problems(&text), Vec::<String>::new());
    assert_eq!(problems("# TYPE a gauge\na_total 1\n").len(), 2);
}
