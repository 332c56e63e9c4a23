//! File systems that another process serves, and that answer nothing, and directories that a process holds: requests for their files are refused after a
//! while, and delay nothing else.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_testing::{Client, HeldDirectory, Response, Server, Setup, SilentFuse, Tmpfs, wait_until};

/// Much less than the time for which a request waits (5 s).
const AT_ONCE: Duration = Duration::from_secs(3);

const FILES: &[(&str, &str)] = &[
    ("a.txt", "a"),
    ("b.txt", "b"),
    ("c.txt", "c"),
    ("d.txt", "d"),
    ("index.html", "index"),
    ("run", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\na'\n"),
    ("later", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nlater'\n"),
];

/// A setup with one worker, a file and a script in a local file system.
fn setup() -> Setup {
    Setup::new()
        .workers(1)
        .file("local.txt", "local")
        .script("local", "printf 'Content-Type: text/plain\n\nlocal'")
}

/// Other requests are answered while these wait.
#[track_caller]
fn assert_others_are_answered(server: &Server) {
    for path in ["/local.txt", "/cgi-bin/local"] {
        let begun = Instant::now();
        assert_eq!(server.get(path).text(), "local", "{path}");
        assert!(begun.elapsed() < AT_ONCE, "{path} took {:?}", begun.elapsed());
    }
}

#[track_caller]
fn assert_refused(response: &Response) {
    assert_eq!(response.status, 503, "{}", response.text());
    assert_eq!(response.field("retry-after"), Some("10"));
}

/// A file system below `place` that was asked for `known` and is silent, the server, and the client that waits for `path`.
fn silent(setup: Setup, place: &Path, known: &str, path: &str) -> Option<(SilentFuse, Server, Client)> {
    let mut silent = SilentFuse::mount(place, FILES)?;
    let server = setup.start();
    assert_eq!(server.get(known).text(), "a");
    silent.fall_silent();
    let mut waiting = server.connect();
    waiting.get(path);
    silent.await_request();
    assert_others_are_answered(&server);
    Some((silent, server, waiting))
}

#[test]
fn a_file_in_a_silent_file_system_below_a_root_is_refused_and_delays_nothing() {
    let setup = setup();
    let place = setup.path("htdocs/silent");
    let Some((mut silent, server, mut waiting)) = silent(setup, &place, "/silent/a.txt", "/silent/b.txt") else {
        return;
    };
    assert_refused(&waiting.response());
    let line = server.log_line("does not answer");
    assert!(line.contains("/silent/b.txt"), "{line}");
    assert_others_are_answered(&server);
    silent.answer();
    for (path, text) in [("/silent/b.txt", "b"), ("/silent/c.txt", "c"), ("/silent/", "index")] {
        assert_eq!(server.get(path).text(), text, "{path}");
    }
    assert_eq!(server.get("/silent/none").status, 404);
}

#[test]
fn a_directory_of_a_route_in_a_silent_file_system_is_refused_and_delays_nothing() {
    let setup = setup().route("path = \"/other/*\"\ndirectory = \"other\"");
    let place = setup.path("other");
    let Some((mut silent, server, mut waiting)) = silent(setup, &place, "/other/a.txt", "/other/b.txt") else {
        return;
    };
    assert_refused(&waiting.response());
    silent.answer();
    assert_eq!(server.get("/other/b.txt").text(), "b");
    assert_eq!(server.get("/other/a.txt").text(), "a");
}

#[test]
fn a_script_in_a_silent_file_system_is_refused_and_delays_nothing() {
    let setup = setup().script_route("/run/*", "directory = \"other\"");
    let place = setup.path("other");
    let Some((mut silent, server, mut waiting)) = silent(setup, &place, "/run/run", "/run/later") else {
        return;
    };
    assert_refused(&waiting.response());
    silent.answer();
    assert_eq!(server.get("/run/later").text(), "later");
    assert_eq!(server.get("/run/none").status, 404);
}

#[test]
fn a_listing_with_an_entry_in_a_silent_file_system_is_refused_and_delays_nothing() {
    let setup = setup().site("listing = true");
    let place = setup.path("htdocs/l/silent");
    let Some((mut silent, server, mut waiting)) = silent(setup, &place, "/l/silent/a.txt", "/l/silent/b.txt") else {
        return;
    };
    // More than there are permits for listings.
    let mut listings: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    for listing in &mut listings {
        listing.get("/l/");
    }
    assert_others_are_answered(&server);
    assert_eq!(server.get("/").status, 200, "another listing");
    assert_refused(&waiting.response());
    for mut listing in listings {
        // The attributes of the mounted directory may be known.
        let response = listing.response();
        assert!(response.status == 503 || response.text().contains("silent"));
    }
    silent.answer();
    let listing = server.get("/l/");
    assert!(listing.text().contains("silent"), "{}", listing.text());
}

#[test]
fn a_file_that_a_script_names_in_a_silent_file_system_is_refused_and_delays_nothing() {
    let setup = setup()
        .route("path = \"/other/*\"\ndirectory = \"other\"")
        .cgi("send_files = { \"/protected/\" = \"other\" }")
        .script("x", "printf 'X-Accel-Redirect: /protected/b.txt\n\n'");
    let place = setup.path("other");
    let Some((mut silent, server, mut waiting)) = silent(setup, &place, "/other/a.txt", "/cgi-bin/x") else {
        return;
    };
    assert_refused(&waiting.response());
    silent.answer();
    assert_eq!(server.get("/cgi-bin/x").text(), "b");
}

#[test]
fn a_file_that_is_open_when_its_file_system_falls_silent_delays_nothing() {
    let setup = setup();
    let files = &[("large", "@20000000"), ("open", "@20000000")];
    let Some(mut silent) = SilentFuse::mount(&setup.path("htdocs/silent"), files) else {
        return;
    };
    let server = setup.start();
    assert_eq!(server.get("/silent/large").body.len(), 20_000_000);
    // Its client reads no more than the head.
    let mut stalled = server.connect();
    assert_eq!(stalled.get("/silent/open").head().status, 200);
    let mut reading = server.connect();
    reading.get("/silent/large");
    assert_eq!(reading.head().status, 200);
    silent.fall_silent();
    drop(stalled);
    silent.await_request();
    assert_others_are_answered(&server);
    let (body, _) = reading.rest();
    assert!(body.len() < 20_000_000);
    server.log_line("does not answer");
    assert_others_are_answered(&server);
    silent.answer();
    assert!(wait_until(|| server.get("/silent/large").body.len() == 20_000_000));
}

/// The threads of a process with this name.
pub(super) fn threads(pid: u32, name: &str) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|own| own.trim() == name).count()
}

#[test]
fn many_requests_into_a_silent_file_system_take_few_threads_and_later_ones_are_refused_at_once() {
    let setup = setup();
    let place = setup.path("htdocs/silent");
    let Some((mut silent, server, mut first)) = silent(setup, &place, "/silent/a.txt", "/silent/b.txt") else {
        return;
    };
    let mut others: Vec<Client> = (0..30).map(|_| server.connect()).collect();
    for other in &mut others {
        other.get("/silent/c.txt");
    }
    assert_others_are_answered(&server);
    assert_refused(&first.response());
    for mut other in others {
        assert_refused(&other.response());
    }
    // Eight for the file system, and some for the directories of the configuration.
    let threads = threads(server.server_pid(), "lookups");
    assert!((1..=16).contains(&threads), "{threads}");
    let begun = Instant::now();
    assert_refused(&server.get("/silent/d.txt"));
    assert!(begun.elapsed() < AT_ONCE);
    silent.answer();
    assert!(wait_until(|| server.get("/silent/d.txt").text() == "d"));
}

#[test]
fn files_and_scripts_of_another_local_file_system_below_a_root_are_served() {
    let setup = setup()
        .site("listing = true")
        .script_route("/run/*", "directory = \"htdocs/disk/bin\"");
    let Some(_mounted) = Tmpfs::mount(&setup.path("htdocs/disk")) else {
        return;
    };
    let setup = setup
        .file("disk/a.txt", "a")
        .file("disk/large.txt", "x".repeat(300_000))
        .file("disk/d/index.html", "index")
        .file_with_mode(
            "disk/bin/run",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran'\n",
            0o755,
        );
    let server = setup.start();
    for _ in 0..2 {
        assert_eq!(server.get("/disk/a.txt").text(), "a");
        assert_eq!(server.get("/disk/d/").text(), "index");
        assert_eq!(server.get("/disk/large.txt").body.len(), 300_000);
        assert_eq!(server.get("/disk/none").status, 404);
        assert_eq!(server.get("/run/run").text(), "ran");
        assert!(server.get("/disk/").text().contains("large.txt"));
        assert!(server.get("/").text().contains("disk"));
    }
    std::fs::remove_dir_all(server.path("htdocs/disk/d")).unwrap();
}

#[test]
fn names_that_are_looked_up_in_a_held_directory_are_refused_and_delay_nothing() {
    let setup = setup()
        .file("held/known.txt", "known")
        .file("held/d/index.html", "index")
        .file("other/a.txt", "a");
    let server = setup.start();
    assert_eq!(server.get("/held/known.txt").text(), "known");
    assert_eq!(server.get("/held/d/").text(), "index");
    let Some(held) = HeldDirectory::hold(&server.path("htdocs/held"), &server.path("memory")) else {
        return;
    };
    let mut waiting: Vec<Client> = (0..12).map(|_| server.connect()).collect();
    for (number, client) in waiting.iter_mut().enumerate() {
        client.get(&format!("/held/none{number}"));
    }
    assert_others_are_answered(&server);
    let begun = Instant::now();
    for (path, status) in [
        ("/held/known.txt", 200),
        ("/held/d/", 200),
        ("/held/d/none", 404),
        ("/none", 404),
        ("/other/none", 404),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
    }
    assert!(begun.elapsed() < AT_ONCE);
    for mut client in waiting {
        assert_refused(&client.response());
    }
    let begun = Instant::now();
    assert_refused(&server.get("/held/later"));
    assert!(begun.elapsed() < AT_ONCE);
    let threads = threads(server.server_pid(), "local-lookups");
    // Two for the held directory, and some for the others: a thread that has answered may not be free yet when the next one is needed.
    assert!((2..=8).contains(&threads), "{threads}");
    drop(held);
    assert!(wait_until(|| server.get("/held/later").status == 404));
}

#[test]
fn a_script_and_a_listing_in_a_held_directory_are_refused_and_delay_nothing() {
    let setup = setup()
        .site("listing = true")
        .file("l/a.txt", "a")
        .file("other/a.txt", "a");
    let server = setup.start();
    assert!(server.get("/l/").text().contains("a.txt"));
    assert_eq!(server.get("/cgi-bin/local").text(), "local");
    let hold = |directory: &str, memory: &str| HeldDirectory::hold(&server.path(directory), &server.path(memory));
    let Some(listed) = hold("htdocs/l", "memory") else {
        return;
    };
    let scripts = hold("htdocs/cgi-bin", "also").expect("as the first one");
    // More than there are permits for listings.
    let mut waiting: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    for listing in &mut waiting {
        listing.get("/l/");
    }
    waiting.push(server.connect());
    waiting.last_mut().unwrap().get("/cgi-bin/none");
    let begun = Instant::now();
    assert_eq!(server.get("/local.txt").text(), "local");
    assert!(begun.elapsed() < AT_ONCE);
    for mut client in waiting {
        assert_refused(&client.response());
    }
    assert!(server.get("/other/").text().contains("a.txt"));
    drop(listed);
    drop(scripts);
    assert!(wait_until(
        || server.get("/l/").status == 200 && server.get("/cgi-bin/none").status == 404
    ));
}

#[test]
fn a_users_file_in_a_silent_file_system_delays_nobody_else() {
    const REQUEST: &str = "GET /closed/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YW5uOng=\r\n\r\n";
    let setup = setup().route("path = \"/closed/*\"\naccess = { users = \"users/list\" }");
    let Some(mut silent) = SilentFuse::mount(&setup.path("users"), &[("list", "# nobody\n")]) else {
        return;
    };
    let server = setup.start();
    assert_eq!(server.connect().send(REQUEST).response().status, 401);
    silent.fall_silent();
    // The file is checked once a second, for a request with a name. There are few, because wrong passwords are counted.
    let (begun, mut clients) = (Instant::now(), Vec::new());
    while begun.elapsed() < Duration::from_secs(2) {
        if begun.elapsed() > Duration::from_millis(600) * u32::try_from(clients.len()).unwrap() {
            let mut client = server.connect();
            client.send(REQUEST);
            clients.push(client);
        }
        assert_others_are_answered(&server);
    }
    silent.await_request();
    assert_others_are_answered(&server);
    // The users of before count.
    assert_eq!(server.connect().send(REQUEST).response().status, 401);
    silent.answer();
}
