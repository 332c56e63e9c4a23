//! `metrics`: the OpenMetrics text, and the dashboard that uses its names.

use std::collections::BTreeSet;

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
    let server = setup().file("a.txt", "text").start();
    server.get("/a.txt");
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
    let setup = setup();
    certificate.issue_to(&setup.path("c.pem"), &["localhost"]);
    let server = setup
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"c.pem\" }")
        .start();
    server.get("/none");
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
