//! Rotation by the server: by size under load, by day, the number of files kept, and disk errors.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use sluice_testing::{Server, Setup, run, wait_until};

/// Concurrent clients, and requests of each.
const CLIENTS: usize = 8;
const REQUESTS: usize = 250;

/// The rotated files, oldest first, then the current one.
fn files(server: &Server, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(server.path("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|file| file.starts_with(name)).collect();
    names.sort_unstable_by_key(|file| {
        let rest = file.strip_prefix(name).unwrap().trim_start_matches('.');
        let (stamp, number) = rest.split_once('.').unwrap_or((rest, "0"));
        (rest.is_empty(), stamp.to_owned(), number.parse::<u32>().unwrap())
    });
    names.iter().map(|file| server.path(file)).collect()
}

/// The lines of all files. A file renamed or removed meanwhile gives none; callers poll.
fn lines(files: &[PathBuf]) -> Vec<String> {
    let texts = files.iter().map(|file| match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        text => text.unwrap(),
    });
    texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Sends every request of every client, each with its own query.
fn load(server: &Server) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let mut connection = server.connect();
                for request in 0..REQUESTS {
                    connection.get(&format!("/a.txt?{client}-{request}")).response();
                }
            });
        }
    });
}

#[test]
fn rotation_by_size_under_load_loses_and_splits_no_line() {
    let server = Setup::new()
        .log("access = \"access.log\"\nformat = \"%U%q %>s %L end\"\nrotate_size = \"4KiB\"")
        .file("a.txt", "a")
        .start();
    load(&server);
    let expected = CLIENTS * REQUESTS;
    let all = || lines(&files(&server, "access.log"));
    assert!(
        wait_until(|| all().len() == expected),
        "{} lines of {expected}",
        all().len()
    );
    let all = all();
    for line in &all {
        assert!(line.starts_with("/a.txt?") && line.ends_with(" end"), "torn: {line:?}");
    }
    // The lines of each client are in order.
    for client in 0..CLIENTS {
        let own = format!("/a.txt?{client}-");
        let numbers: Vec<usize> = all
            .iter()
            .filter_map(|line| line.strip_prefix(&own)?.split(' ').next()?.parse().ok())
            .collect();
        assert!(numbers.into_iter().eq(0..REQUESTS), "client {client}");
    }
    let files = files(&server, "access.log");
    let bytes: usize = all.iter().map(|line| line.len() + 1).sum();
    assert!(
        files.len() >= bytes.div_ceil(4096),
        "{} files for {bytes} bytes",
        files.len()
    );
    for file in &files {
        let length = fs::metadata(file).unwrap().len();
        assert!((1..=4096).contains(&length), "{length} bytes in {}", file.display());
    }
}

#[test]
fn only_the_newest_files_are_kept() {
    let server = Setup::new()
        .log("access = \"access.log\"\nformat = \"%q %L\"\nrotate_size = \"4KiB\"\nkeep = 2")
        .file("a.txt", "a")
        .workers(1)
        .start();
    fs::write(server.path("access.log.old"), "not the server's\n").unwrap();
    let mut client = server.connect();
    for request in 0..800 {
        client.get(&format!("/a.txt?{request}")).response();
    }
    let own = || {
        let mut own = files(&server, "access.log.2");
        own.push(server.path("access.log"));
        lines(&own)
    };
    assert!(
        wait_until(|| own().last().is_some_and(|line| line.starts_with("?799 "))),
        "{:?}",
        own().last()
    );
    assert!(wait_until(|| files(&server, "access.log.2").len() == 2));
    let numbers: Vec<usize> = own()
        .iter()
        .map(|line| line[1..].split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(
        numbers[0] > 0 && numbers.iter().copied().eq(numbers[0]..800),
        "{numbers:?}"
    );
    assert!(server.path("access.log.old").exists());
}

#[test]
fn first_line_of_a_day_starts_a_new_file() {
    let setup = Setup::new()
        .log("access = \"access.log\"\nformat = \"%U\"\nrotate = \"daily\"")
        .file("a.txt", "a");
    fs::write(setup.path("access.log"), "before\n").unwrap();
    let days_ago = SystemTime::now() - Duration::from_secs(3 * 86_400);
    let log = fs::File::options().append(true).open(setup.path("access.log")).unwrap();
    log.set_modified(days_ago).unwrap();
    drop(log);
    let server = setup.start();
    assert_eq!(
        files(&server, "access.log").len(),
        1,
        "nothing is rotated before the first line"
    );
    server.get("/a.txt");
    server.get("/a.txt");
    assert!(wait_until(|| lines(&files(&server, "access.log")).len() == 3));
    let [old, new] = &files(&server, "access.log")[..] else {
        panic!("{:?}", files(&server, "access.log"))
    };
    assert_eq!(fs::read_to_string(old).unwrap(), "before\n");
    assert_eq!(fs::read_to_string(new).unwrap(), "/a.txt\n/a.txt\n");
    let name = old.file_name().unwrap().to_str().unwrap();
    assert_eq!(name.len(), "access.log.20261118-065540".len(), "{name}");
}

#[test]
fn log_that_cannot_be_rotated_continues_with_one_message() {
    let setup = Setup::new()
        .log("access = \"logs/access.log\"\nformat = \"%q %L\"\nrotate_size = \"4KiB\"")
        .file("a.txt", "a");
    fs::create_dir(setup.path("logs")).unwrap();
    let server = setup.start();
    fs::rename(server.path("logs"), server.path("moved")).unwrap();
    let mut client = server.connect();
    for request in 0..400 {
        client.get(&format!("/a.txt?{request}")).response();
    }
    let moved = || lines(&[server.path("moved/access.log")]);
    assert!(wait_until(|| moved().len() == 400), "{} lines", moved().len());
    server.log_line("cannot be rotated");
    drop(client);
    let message = server.stop().errors;
    assert_eq!(message.matches("cannot be rotated").count(), 1, "{message}");
}

#[test]
fn full_disk_does_not_stop_the_server_and_lost_lines_are_counted() {
    let server = Setup::new()
        .log("access = \"/dev/full\"\nformat = \"%r\"")
        .file("a.txt", "a")
        .start();
    for _ in 0..5 {
        assert_eq!(server.get("/a.txt").text(), "a");
    }
    let message = server.log_line("No space left on device");
    assert!(
        message.contains("access log /dev/full") && message.contains("lines wait"),
        "{message}"
    );
    let ended = server.stop();
    assert!(ended.errors.contains("; 5 lines lost"), "{}", ended.errors);
}

#[test]
fn sigusr1_reopens_every_log() {
    let server = Setup::new()
        .log("access = \"a.log\"\nformat = \"%U\"")
        .sites("[[site]]\nhosts = [\"b.example\"]\nroot = \"htdocs\"\nlog = { access = \"b.log\" }\n")
        .file("a.txt", "a")
        .start();
    for name in ["a.log", "b.log"] {
        fs::rename(server.path(name), server.path(&format!("{name}.1"))).unwrap();
    }
    server.signal("USR1");
    // The supervisor makes the files a moment before the server process opens them.
    let mut sent = 0;
    let is_in = |name: &str| server.path(name).exists() && !lines(&[server.path(name)]).is_empty();
    assert!(wait_until(|| {
        server.get("/a.txt");
        server.send("GET /a.txt HTTP/1.1\r\nHost: b.example\r\n\r\n");
        sent += 1;
        is_in("a.log") && is_in("b.log")
    }));
    for name in ["a.log", "b.log"] {
        let both = || lines(&[server.path(&format!("{name}.1")), server.path(name)]);
        assert!(
            wait_until(|| both().len() == sent),
            "{name}: {} of {sent}",
            both().len()
        );
    }
}

#[test]
fn a_log_of_a_site_that_cannot_be_opened_again_keeps_no_other_from_it() {
    let setup = Setup::new()
        .log("access = \"a.log\"\nformat = \"%U\"")
        .sites("[[site]]\nhosts = [\"b.example\"]\nroot = \"htdocs\"\nlog = { access = \"own/b.log\" }\n")
        .file("a.txt", "a");
    fs::create_dir(setup.path("own")).unwrap();
    let server = setup.start();
    fs::rename(server.path("a.log"), server.path("a.log.1")).unwrap();
    fs::rename(server.path("own"), server.path("moved")).unwrap();
    let ran = run(server.setup().directory(), &["log", "reopen"]);
    // Otherwise logrotate would neither compress nor remove any of the files.
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    let failure = "own/b.log: No such file or directory (os error 2); the file opened before stays in use";
    assert!(ran.output.contains(failure), "{}", ran.output);
    assert!(ran.output.contains("the other logs are opened again"), "{}", ran.output);
    // The thread of the log has a line like it.
    let line = server.log_line(&format!(
        "sluice log reopen: log {}: ",
        server.path("own/b.log").display()
    ));
    assert!(line.contains("ERROR") && line.contains(failure), "{line}");
    let sent = |file: &str| wait_until(|| !lines(&[server.path(file)]).is_empty());
    server.get("/a.txt");
    assert!(wait_until(|| server.path("a.log").exists()) && sent("a.log"));
    server.send("GET /a.txt HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n");
    assert!(sent("moved/b.log"));
}
