//! The activity of the last 28 days: across restarts and crashes, and with whatever is wrong with its file.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{get, json, setup};
use sluice_testing::{Server, Setup, signal, wait_until};

/// The name of the file in the state directory.
const FILE: &str = "activity.ring";

/// The size of the file: a header, and 64 bytes for each minute of 28 days.
const FILE_BYTES: usize = 64 + 28 * 24 * 60 * 64;

/// A server that keeps its state in a directory, which outlives it.
fn setup_with(state: &Path) -> Setup {
    setup()
        .file("a.txt", "0123456789")
        .server(&format!("state_directory = \"{}\"", state.display()))
}

/// The sums of the last 28 days.
#[track_caller]
fn total(server: &Server) -> Value {
    json(server, "/-/activity.json?view=28days")["total"].clone()
}

#[track_caller]
fn assert_requests(server: &Server, least: u64) {
    let has = || total(server)["requests"].as_u64() >= Some(least);
    assert!(wait_until(has), "{}", total(server));
}

#[test]
fn it_survives_a_restart() {
    let state = tempfile::tempdir().unwrap();
    let server = setup_with(&state.path().join("new")).start();
    for _ in 0..5 {
        server.get("/a.txt");
    }
    server.get("/none");
    assert_requests(&server, 6);
    let before = total(&server);
    server.stop();
    let file = state.path().join("new").join(FILE);
    assert_eq!(fs::read(&file).unwrap().len(), FILE_BYTES);

    let server = setup_with(&state.path().join("new")).start();
    let after = total(&server);
    assert!(after["requests"].as_u64() >= before["requests"].as_u64(), "{after}");
    assert!(after["by_class"][1].as_u64() >= Some(5), "{after}");
    assert!(after["by_class"][3].as_u64() >= Some(1), "{after}");
    assert!(after["sent_bytes"].as_u64() >= Some(50), "{after}");
    let marks = [&after["starts"], &after["stops"], &after["crashes"]];
    assert_eq!(marks, [2, 1, 0], "{after}");
    let page = get(&server, "/-/activity?view=day");
    for words in ["<svg", "started", "stopped", FILE, "2 starts"] {
        assert!(page.text().contains(words), "no {words} in {}", page.text());
    }
}

#[test]
fn a_crash_is_a_start_without_a_stop() {
    let state = tempfile::tempdir().unwrap();
    let server = setup_with(state.path()).start();
    let file = state.path().join(FILE);
    let has_start = || fs::read(&file).is_ok_and(|bytes| bytes.iter().skip(64).any(|byte| *byte != 0));
    assert!(wait_until(has_start), "{}", server.log());
    // Its supervisor starts another one.
    assert!(signal(server.server_pid(), "KILL"));
    server.log_line("activity: the server before this one ended without a stop");
    let after = total(&server);
    let marks = [&after["starts"], &after["stops"], &after["crashes"]];
    assert_eq!(marks, [2, 0, 1], "{after}");
    let page = get(&server, "/-/activity");
    assert!(page.text().contains("ended without a stop"), "{}", page.text());
    assert!(page.text().contains("class=\"mark crash\""), "{}", page.text());
}

#[test]
fn a_second_server_keeps_its_own_in_memory() {
    let state = tempfile::tempdir().unwrap();
    let first = setup_with(state.path()).start();
    let second = setup_with(state.path()).start();
    second.log_line("is used by another server");
    second.get("/a.txt");
    assert_requests(&second, 1);
    let kept = json(&second, "/-/activity.json")["kept"].clone();
    assert!(
        kept["problem"].as_str().unwrap().contains("used by another server"),
        "{kept}"
    );
    let page = get(&second, "/-/activity");
    assert!(page.text().contains("Not kept at present"), "{}", page.text());
    assert_eq!(json(&first, "/-/activity.json")["kept"]["problem"], Value::Null);
}

#[test]
fn whatever_is_wrong_with_the_file_the_server_serves() {
    type Prepare = fn(&Path);
    let cases: [(Prepare, &str); 5] = [
        (
            |state| fs::write(state.join(FILE), "something else").unwrap(),
            "is damaged, or of another version: it is now",
        ),
        (|state| fs::create_dir(state.join(FILE)).unwrap(), "Is a directory"),
        (
            |state| std::os::unix::fs::symlink(state.join("other"), state.join(FILE)).unwrap(),
            "is a symbolic link",
        ),
        (
            |state| {
                let made = std::process::Command::new("mkfifo").arg(state.join(FILE)).status();
                assert!(made.unwrap().success());
            },
            "is not a regular file",
        ),
        (
            |state| fs::write(state.join(FILE), vec![7; FILE_BYTES]).unwrap(),
            "is damaged, or of another version: it is now",
        ),
    ];
    for (prepare, expected) in cases {
        let state = tempfile::tempdir().unwrap();
        prepare(state.path());
        let server = setup_with(state.path()).start();
        server.log_line(expected);
        server.get("/a.txt");
        assert_requests(&server, 1);
        assert_eq!(get(&server, "/-/activity").status, 200, "{expected}");
        let ended = server.stop();
        assert_eq!(ended.errors.matches("WARN  activity").count(), 1, "{}", ended.errors);
    }
    let server = setup_with(Path::new("/proc/none")).start();
    server.log_line("activity: /proc/none: ");
    assert_eq!(get(&server, "/-/activity").status, 200);
}

#[test]
fn a_disk_without_room_is_logged_and_the_minutes_stay_in_memory() {
    let state = tempfile::tempdir().unwrap();
    // A write past the limit fails as one to a full disk does.
    let limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))\nos.umask(0o077)";
    let server = setup_with(&state.path().join("new")).start_after(limit);
    server.log_line("it is kept in memory until its file can be written");
    server.get("/a.txt");
    assert_requests(&server, 1);
}

#[test]
fn each_period_has_its_bars() {
    let server = setup().server("state_directory = \"off\"").start();
    server.get("/health.txt");
    assert_requests(&server, 1);
    for (view, bars, seconds) in [
        ("hour", 60, 60),
        ("day", 144, 600),
        ("week", 168, 3600),
        ("28days", 168, 14400),
    ] {
        let shown = json(&server, &format!("/-/activity.json?view={view}"));
        assert_eq!(shown["period"], view);
        let buckets = shown["buckets"].as_array().unwrap();
        assert_eq!((buckets.len(), &shown["bucket_seconds"]), (bars, &Value::from(seconds)));
        // A bar may have begun just now.
        let last = buckets[bars - 2..]
            .iter()
            .filter_map(|bucket| bucket["requests"].as_u64());
        assert!(last.sum::<u64>() > 0, "{shown}");
        let page = get(&server, &format!("/-/activity?view={view}"));
        let expected = [
            format!("data-live=\"activity?live&amp;view={view}\""),
            format!("href=\"activity.json?view={view}\""),
            "Kept in memory".to_owned(),
        ];
        for words in expected {
            assert!(page.text().contains(&words), "no {words} in {}", page.text());
        }
    }
    // An hour ago there was nothing; a moment that is no number, or too far away, is no mistake.
    let now = json(&server, "/-/activity.json")["now"].as_u64().unwrap();
    let earlier = json(&server, &format!("/-/activity.json?end={}", now - 3700));
    assert_eq!(earlier["total"]["requests"], 0, "{earlier}");
    for end in ["x", "0", "99999999999999999999", "-1", "18446744073709551615"] {
        let path = format!("/-/activity?view=none&end={end}");
        assert_eq!(get(&server, &path).status, 200, "{end}");
    }
}

#[test]
fn a_served_directory_keeps_it_in_memory_and_a_reload_changes_no_place() {
    let server = Setup::new().start_with(&["serve", "htdocs", "--host", "test", "--listen", "127.0.0.1:0"]);
    assert_eq!(json(&server, "/-/activity.json")["kept"]["file"], Value::Null);
    assert!(!server.path("state").exists());
    drop(server);
    let server = setup().start();
    assert!(server.path("state").join(FILE).exists());
    let file = server.path("sluice.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("[server]", "[server]\nstate_directory = \"off\"")).unwrap();
    server.signal("HUP");
    server.log_line("state_directory is unchanged: this change takes effect when the server is restarted");
}
