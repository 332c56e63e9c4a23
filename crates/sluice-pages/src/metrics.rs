//! The state of a server in the OpenMetrics text format, for Prometheus and others.
//!
//! Names have their unit at the end, counters `_total`; no label has values that clients choose. Those of scripts are bounded in number (`metrics_of_scripts`). The dashboard in `packaging/grafana` and
//! the alert rules in `packaging/prometheus` use these names, and tests compare them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode as encode_text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use sluice_report::histogram::Times;
use sluice_report::scripts::Scripts;
use sluice_report::status::{CertificateStatus, Status};
use sluice_report::traffic::{ScriptName, Share, Shares};

use crate::metrics_of_scripts::{ScriptCounts, by_script};

/// The media type of the text (OpenMetrics 1.0, "Protocol Negotiation").
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type parameter for exemplars (OpenMetrics 1.0): the metrics have none.
type NoExemplar<V> = Exemplar<[(&'static str, &'static str); 0], V>;

/// The upper bounds of the buckets of times: powers of two, from 64 microseconds to a minute.
const BOUNDS: [f64; 21] = {
    let mut bounds = [64e-6; 21];
    let mut number = 1;
    while number < bounds.len() {
        bounds[number] = bounds[number - 1] * 2.0;
        number += 1;
    }
    bounds
};

/// The measurements that the text shows.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The state of the server.
    pub status: Status,
    /// The script processes.
    pub scripts: Scripts,
    /// The exchanges of each site and script.
    pub shares: Shares,
    /// The version of the program.
    pub version: &'static str,
    /// The resident memory of the server in bytes, without its script processes; `None` if it is unknown.
    pub memory_bytes: Option<u64>,
    /// The open descriptors of the server; `None` if it is unknown.
    pub descriptors: Option<u64>,
    /// The processor time of the server in seconds; `None` if it is unknown.
    pub processor_seconds: Option<f64>,
}

/// The text.
///
/// # Errors
/// Never, because a text takes everything.
pub fn encode(measured: Measured) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    // The library needs a value that threads may share.
    registry.register_collector(Box::new(Families(Mutex::new(measured))));
    let mut text = String::new();
    encode_text(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Families(Mutex<Measured>);

impl Collector for Families {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let measured = self.0.lock().map_err(|_| fmt::Error)?;
        let mut out = Out(encoder);
        out.process(&measured)?;
        out.scripts(&measured.scripts)?;
        out.shares(&measured.shares)?;
        out.status(&measured.status)
    }
}

/// A metric without labels: its name, its help and its value.
type Row<'a, V> = (&'a str, &'a str, V);

type Labels<'a> = Vec<(&'static str, &'a str)>;

fn labels_of(script: &ScriptName) -> Labels<'_> {
    ["site", "script", "mode"]
        .into_iter()
        .zip(script.iter().map(String::as_str))
        .collect()
}

/// The counts of a share by class. Those that are never or rarely above 0 are left out while they are 0.
fn by_class(share: &Share) -> impl Iterator<Item = (&'static str, u64)> {
    let [informational, successful, redirected, client, server] = share.by_class;
    let counts = [
        ("1xx", informational, false),
        ("2xx", successful, true),
        ("3xx", redirected, true),
        ("4xx", client, true),
        ("499", share.client_left, false),
        ("5xx", server, true),
    ];
    let shown = counts
        .into_iter()
        .filter(|(_, count, is_usual)| *is_usual || *count > 0);
    shown.map(|(class, count, _)| (class, count))
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn process(&mut self, measured: &Measured) -> fmt::Result {
        self.0
            .encode_descriptor("sluice", "The program", None, MetricType::Info)?
            .encode_info(&[("version", measured.version)])?;
        let status = &measured.status;
        let (seconds, bytes) = (Some(&Unit::Seconds), Some(&Unit::Bytes));
        self.gauges(seconds, &[("sluice_start_time", "Start of the server", status.started)])?;
        self.gauges(None, &[("sluice_workers", "Event-loop threads", status.workers as u64)])?;
        if let Some(memory) = measured.memory_bytes {
            let help = "Resident memory of the server";
            self.gauges(bytes, &[("sluice_process_resident_memory", help, memory)])?;
        }
        if let Some(count) = measured.descriptors {
            let help = "Open descriptors of the server";
            self.gauges(None, &[("sluice_process_open_fds", help, count)])?;
        }
        if let Some(time) = measured.processor_seconds {
            self.counters(seconds, &[("sluice_process_cpu", "Processor time of the server", time)])?;
        }
        Ok(())
    }

    fn certificates(&mut self, certificates: &[CertificateStatus]) -> fmt::Result {
        if certificates.is_empty() {
            return Ok(());
        }
        let (name, unit) = ("sluice_certificate_expiry_time", Some(&Unit::Seconds));
        let help = "End of the validity of a certificate, since 1970";
        let samples = certificates.iter().map(|certificate| {
            let labels = vec![("certificate", certificate.file.as_str())];
            (labels, certificate.expires)
        });
        self.family(MetricType::Gauge, name, help, unit, samples)
    }

    fn scripts(&mut self, scripts: &Scripts) -> fmt::Result {
        let counts = by_script(scripts);
        if counts.is_empty() {
            return Ok(());
        }
        let samples = |value: fn(&ScriptCounts) -> u64| {
            let counts = counts.iter();
            counts.map(move |(script, counts)| (labels_of(script), value(counts)))
        };
        let (gauge, counter) = (MetricType::Gauge, MetricType::Counter);
        let (help, processes) = ("Running processes of a script", samples(|counts| counts.processes));
        self.family(gauge, "sluice_script_pool_processes", help, None, processes)?;
        let help = "Requests that wait for a process of a script";
        self.family(
            gauge,
            "sluice_script_pool_waiting",
            help,
            None,
            samples(|counts| counts.waiting),
        )?;
        let (help, started) = ("Processes started for a script", samples(|counts| counts.started));
        self.family(counter, "sluice_script_pool_started", help, None, started)?;
        let help = "Requests for a script that got no process, by the reason";
        let samples = counts.iter().flat_map(|(script, ScriptCounts { refused, .. })| {
            let reasons = [
                ("queue_full", refused.queue_full),
                ("timed_out", refused.timed_out),
                ("no_room", refused.no_room),
                ("client_share", refused.client_share),
                ("backed_off", refused.backed_off),
            ];
            reasons.map(|(reason, count)| ([labels_of(script), vec![("reason", reason)]].concat(), count))
        });
        self.family(counter, "sluice_script_pool_refused", help, None, samples)
    }

    fn shares(&mut self, shares: &Shares) -> fmt::Result {
        let sites = shares.sites.iter();
        let sites: Vec<_> = sites
            .map(|(site, share)| (vec![("site", site.as_str())], share))
            .collect();
        self.shares_of("site", "a site", &sites)?;
        let scripts = shares.scripts.iter();
        let scripts: Vec<_> = scripts.map(|(name, share)| (labels_of(name), share)).collect();
        self.shares_of("script", "a script", &scripts)
    }

    fn shares_of(&mut self, kind: &str, whose: &str, shares: &[(Labels<'_>, &Share)]) -> fmt::Result {
        if shares.is_empty() {
            return Ok(());
        }
        let name = format!("sluice_{kind}_responses");
        let help = format!("Ended exchanges of {whose}, by the class of the status; 499 if the client left before");
        let samples = shares.iter().flat_map(|(labels, share)| {
            by_class(share).map(|(class, count)| ([labels.as_slice(), &[("class", class)]].concat(), count))
        });
        self.family(MetricType::Counter, &name, &help, None, samples)?;
        for (part, bytes) in [
            ("request", (|share| share.received_bytes) as fn(&Share) -> u64),
            ("response", |share| share.sent_bytes),
        ] {
            let name = format!("sluice_{kind}_{part}_body");
            let help = format!("Bodies of {part}s of {whose}");
            let samples = shares.iter().map(|(labels, share)| (labels.clone(), bytes(share)));
            self.family(MetricType::Counter, &name, &help, Some(&Unit::Bytes), samples)?;
        }
        Ok(())
    }

    fn status(&mut self, status: &Status) -> fmt::Result {
        self.certificates(&status.certificates)?;
        let (connections, processes) = (&status.connections, &status.processes);
        let (running, most) = (processes.running as u64, processes.max as u64);
        self.gauges(
            None,
            &[
                (
                    "sluice_connections_open",
                    "Open connections of clients",
                    connections.open,
                ),
                ("sluice_connections_max", "Connections at most", connections.max as u64),
                ("sluice_script_processes", "Running script processes", running),
                ("sluice_script_processes_max", "Script processes at most", most),
            ],
        )?;
        let accepted = connections.accepted;
        self.counters(
            None,
            &[("sluice_connections_accepted", "Accepted connections", accepted)],
        )?;
        self.requests(status)?;
        let Some(cache) = &status.cache else { return Ok(()) };
        let bytes = Some(&Unit::Bytes);
        self.gauges(None, &[("sluice_cache_files", "Files in the cache", cache.files)])?;
        self.gauges(bytes, &[("sluice_cache_content", "Content of the cache", cache.bytes)])?;
        self.counters(
            None,
            &[
                ("sluice_cache_hits", "Requests answered from the cache", cache.hits),
                ("sluice_cache_misses", "Requests for other files", cache.misses),
                ("sluice_cache_evicted", "Files removed to make room", cache.evicted),
            ],
        )
    }

    fn requests(&mut self, status: &Status) -> fmt::Result {
        let (requests, traffic) = (&status.requests, &status.traffic);
        let (in_progress, help) = (requests.in_progress, "Requests without a complete response");
        self.gauges(None, &[("sluice_http_requests_in_progress", help, in_progress)])?;
        let (total, truncated) = (requests.total, traffic.truncated);
        self.counters(None, &[("sluice_http_requests", "Requests whose head was read", total)])?;
        self.counters(
            None,
            &[("sluice_http_responses_truncated", "Incomplete responses", truncated)],
        )?;
        let bodies = [
            ("sluice_http_request_body", "Bodies of requests", traffic.received_bytes),
            ("sluice_http_response_body", "Bodies of responses", traffic.sent_bytes),
        ];
        self.counters(Some(&Unit::Bytes), &bodies)?;
        for (name, label, counts) in [
            ("sluice_http_responses", "status", &traffic.statuses),
            ("sluice_http_responses_by_answer", "answer", &traffic.answers),
            ("sluice_http_requests_by_method", "method", &traffic.methods),
            ("sluice_http_requests_by_version", "version", &traffic.versions),
            ("sluice_http_requests_by_encryption", "encryption", &traffic.encryption),
        ] {
            let samples = counts
                .iter()
                .map(|(value, count)| (vec![(label, value.as_str())], *count));
            let help = format!("Ended exchanges by {label}");
            self.family(MetricType::Counter, name, &help, None, samples)?;
        }
        let first = "From the head of a request to the first byte of its response";
        self.times("sluice_http_first_byte", first, &traffic.first_byte)?;
        let whole = "From the head of a request to the last byte of its response";
        self.times("sluice_http_exchange", whole, &traffic.whole)
    }

    /// Gauges, to whose names the unit is added if there is one.
    fn gauges(&mut self, unit: Option<&Unit>, rows: &[Row<'_, u64>]) -> fmt::Result {
        for (name, help, value) in rows {
            let mut metric = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            metric.encode_gauge(value)?;
        }
        Ok(())
    }

    fn counters<V: EncodeCounterValue>(&mut self, unit: Option<&Unit>, rows: &[Row<'_, V>]) -> fmt::Result {
        for (name, help, value) in rows {
            let mut metric = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
            metric.encode_counter(value, None::<&NoExemplar<u64>>)?;
        }
        Ok(())
    }

    /// Samples of gauges or counters with labels.
    fn family<'l>(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        samples: impl IntoIterator<Item = (Labels<'l>, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, value) in samples {
            let mut member = metric.encode_family(&labels)?;
            match kind {
                MetricType::Counter => member.encode_counter(&value, None::<&NoExemplar<u64>>)?,
                _ => member.encode_gauge(&value)?,
            }
        }
        Ok(())
    }

    fn times(&mut self, name: &str, help: &str, times: &Times) -> fmt::Result {
        let unit = Unit::Seconds;
        let mut metric = self
            .0
            .encode_descriptor(name, help, Some(&unit), MetricType::Histogram)?;
        // A bucket of the server is never on both sides of a bound, because bounds are powers of two of a microsecond.
        let mut buckets: Vec<(f64, u64)> = BOUNDS.iter().map(|bound| (*bound, 0)).collect();
        buckets.push((f64::INFINITY, 0));
        for counted in &times.buckets {
            let is_within = |(bound, _): &&mut (f64, u64)| counted.below_seconds <= *bound * (1.0 + 1e-9);
            if let Some((_, count)) = buckets.iter_mut().find(is_within) {
                *count += counted.count;
            }
        }
        metric.encode_histogram(
            times.sum_seconds,
            times.count,
            &buckets,
            None::<&HashMap<usize, NoExemplar<f64>>>,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use sluice_report::histogram::{BUCKETS, bucket_of};
    use sluice_report::scripts::Pool;
    use sluice_report::traffic::Traffic;

    fn measured(micros: &[u64]) -> Measured {
        let mut counts = [0; BUCKETS];
        for micros in micros {
            counts[bucket_of(*micros)] += 1;
        }
        let traffic = Traffic {
            statuses: BTreeMap::from([("200".to_owned(), 3), ("404".to_owned(), 1)]),
            first_byte: Times::new(counts, micros.iter().sum()),
            ..Traffic::default()
        };
        Measured {
            status: Status {
                traffic,
                certificates: vec![CertificateStatus {
                    file: "/c.pem".to_owned(),
                    expires: 7,
                    ..CertificateStatus::default()
                }],
                ..Status::default()
            },
            scripts: Scripts {
                pools: vec![Pool {
                    script: "/s\"x".to_owned(),
                    mode: "cgi".to_owned(),
                    site: "a".to_owned(),
                    started: 9,
                    ..Pool::default()
                }],
                ..Scripts::default()
            },
            shares: Shares {
                sites: vec![(
                    "a".to_owned(),
                    Share {
                        by_class: [0, 2, 0, 1, 0],
                        client_left: 1,
                        received_bytes: 4,
                        sent_bytes: 30,
                    },
                )],
                scripts: vec![(["a", "/s", "cgi"].map(str::to_owned), Share::default())],
            },
            version: "1.0",
            memory_bytes: Some(5),
            descriptors: None,
            processor_seconds: Some(0.5),
        }
    }

    #[test]
    fn the_text_has_units_totals_and_an_end() {
        let text = encode(measured(&[63, 64, 100, 90_000_000])).unwrap();
        for line in [
            "# TYPE sluice_http_responses counter",
            "sluice_http_responses_total{status=\"404\"} 1",
            "# UNIT sluice_process_resident_memory_bytes bytes",
            "sluice_process_resident_memory_bytes 5",
            "sluice_process_cpu_seconds_total 0.5",
            "sluice_script_pool_started_total{site=\"a\",script=\"/s\\\"x\",mode=\"cgi\"} 9",
            "sluice_script_pool_processes{site=\"a\",script=\"/s\\\"x\",mode=\"cgi\"} 0",
            "sluice_script_pool_refused_total{site=\"a\",script=\"/s\\\"x\",mode=\"cgi\",reason=\"queue_full\"} 0",
            "# TYPE sluice_site_response_body_bytes counter",
            "sluice_site_responses_total{site=\"a\",class=\"2xx\"} 2",
            "sluice_site_responses_total{site=\"a\",class=\"499\"} 1",
            "sluice_site_responses_total{site=\"a\",class=\"5xx\"} 0",
            "sluice_site_request_body_bytes_total{site=\"a\"} 4",
            "sluice_site_response_body_bytes_total{site=\"a\"} 30",
            "sluice_script_responses_total{site=\"a\",script=\"/s\",mode=\"cgi\",class=\"5xx\"} 0",
            "sluice_script_response_body_bytes_total{site=\"a\",script=\"/s\",mode=\"cgi\"} 0",
            "sluice_info{version=\"1.0\"} 1",
            "sluice_certificate_expiry_time_seconds{certificate=\"/c.pem\"} 7",
            "# TYPE sluice_http_first_byte_seconds histogram",
            "sluice_http_first_byte_seconds_bucket{le=\"0.000064\"} 1",
            "sluice_http_first_byte_seconds_bucket{le=\"0.000128\"} 3",
            "sluice_http_first_byte_seconds_bucket{le=\"+Inf\"} 4",
            "sluice_http_first_byte_seconds_count 4",
        ] {
            assert!(text.lines().any(|other| other == line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert!(!text.contains("1xx"), "{text}");
        assert!(!text.contains("fds"), "{text}");
    }
}
