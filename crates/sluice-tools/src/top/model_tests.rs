//! The model by example: order, filter, rates, and what a line is about.

use serde_json::{Value, json};

use super::*;

/// A snapshot with two requests and two processes; `total` requests so far, and this processor time of the first process.
fn snapshot(total: u64, processor_ms: u64) -> Snapshot {
    let request = |id: &str, age: u64, target: &str, pid: Option<i32>| {
        json!({"id": id, "state": "script", "age_ms": age, "client": "192.0.2.1:1", "user": null, "method": "GET", "host": "a.test",
            "target": target, "protocol": "HTTP/1.1", "handler": "script", "received_bytes": 0, "sent_bytes": age, "pid": pid,
            "script": pid.map(|_| "/s/slow"), "worker": 0})
    };
    let process = |pid: i32, uses: u64, ms: u64, request: Value| {
        json!({"pid": pid, "phase": "busy", "since_ms": 1, "age_ms": 2, "uses": uses, "worker": 0, "cause": "", "script": null,
            "request": request, "usage": {"rss_bytes": 10, "pss_bytes": null, "processor_ms": ms}})
    };
    let work = json!({"id": "r1", "method": "GET", "target": "/slow", "client": null, "age_ms": null});
    let pool = json!({"script": "/s/slow", "mode": "cgiplus", "site": "", "origin": "", "max": 2, "min": 0, "idle_ms": 0, "queue_max": 1,
        "queue_timeout_ms": 1, "is_replaced": false, "processes": [process(7, 1, processor_ms, work), process(8, 9, 0, Value::Null)],
        "waiting": 0, "waiters": [], "started": 2, "refused": {"queue_full": 0, "timed_out": 0, "backed_off": 0}, "ended": []});
    let answer = json!({"ok": true, "messages": [], "requests": {"total": 2, "silent_workers": 0,
            "requests": [request("r1", 900, "/slow", Some(7)), request("r2", 5, "/file.txt", None)]},
        "state": {"version": "1", "pid": 1, "configuration": null, "started": 0, "workers": 1, "addresses": [],
            "connections": {"open": 2, "max": 9, "accepted": 2},
            "requests": {"total": total, "in_progress": 2, "by_class": [0, 0, 0, 0, 0], "client_left": 0, "truncated": 0, "body_bytes": 0},
            "processes": {"running": 2, "max": 4}, "cache": null,
            "scripts": {"running": 2, "max": 4, "pools": [pool]}}});
    Snapshot::of(serde_json::from_value(answer).unwrap()).unwrap()
}

fn model() -> Model {
    let mut model = Model::new(String::new());
    model.take(snapshot(10, 100), Instant::now());
    model
}

#[test]
fn lists_are_sorted_and_filtered() {
    let mut model = model();
    let ids = |model: &Model| {
        model
            .requests()
            .iter()
            .map(|request| request.id.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&model), ["r1", "r2"]);
    model.is_reversed ^= true;
    assert_eq!(ids(&model), ["r2", "r1"]);
    model.is_reversed ^= true;
    model.end_editing("file".into());
    assert_eq!(ids(&model), ["r2"]);
    assert!(model.processes().is_empty());
    model.end_editing("7".into());
    assert_eq!((ids(&model), model.processes().len()), (vec!["r1".to_owned()], 1));
    model.end_editing(String::new());
    model.change_pane();
    model.next_order();
    model.next_order();
    assert_eq!(model.processes()[0].process.uses, 9, "by uses");
}

#[test]
fn rates_are_those_between_two_snapshots_of_one_server() {
    let mut model = Model::new(String::new());
    let begin = Instant::now();
    model.take(snapshot(10, 100), begin);
    assert_eq!(model.rates, Rates::default());
    model.take(snapshot(30, 600), begin + Duration::from_secs(2));
    assert_eq!(model.rates.requests_per_second, Some(10.0));
    assert_eq!(model.processes()[0].processor, Some(0.25));
    model.is_paused = true;
    model.receive(
        News::Snapshot(Box::new(snapshot(99, 0))),
        begin + Duration::from_secs(3),
    );
    assert_eq!(model.rates.requests_per_second, Some(10.0), "paused");
}

#[test]
fn a_line_leads_to_its_request_and_its_script() {
    let mut model = model();
    assert_eq!(model.selected_request().as_deref(), Some("r1"));
    assert!(
        model
            .selected_path()
            .is_some_and(|path| path.starts_with('/') && !path.contains('?'))
    );
    model.ask_to_retire();
    assert_eq!(
        model.question.take(),
        Some(Command::Retire { script: "/s/slow".into() })
    );
    model.select_by(1);
    model.ask_to_retire();
    assert!(
        model.question.take().is_none() && model.message().is_some(),
        "no process"
    );
    model.select_by(isize::MAX);
    assert_eq!(model.selected, 1);
    model.change_pane();
    model.ask_to_end();
    assert_eq!(model.question.take(), Some(Command::End { id: "r1".into() }));
}
