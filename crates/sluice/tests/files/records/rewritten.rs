//! Record files that are rewritten as stream-LF: by the server, where allowed, and by `sluice stream-lf`.

use std::fs::{self, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{LINES, RECORDS, VARIABLE, large, setup};
use sluice_testing::{RunResult, Server, Setup, run, wait_until};

const REWRITTEN: &str = "record_format = \"variable\", convert = \"rewrite\"";

fn read(server: &Server, name: &str) -> Vec<u8> {
    fs::read(server.path("htdocs/vms").join(name)).unwrap()
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn requested_file_is_rewritten_once() {
    let (records, lines) = large();
    let setup = setup(REWRITTEN)
        .file("vms/sub/large.txt", &records)
        .file_with_mode("vms/a.txt", RECORDS, 0o640);
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["sub/large.txt", "a.txt"] {
        let file = fs::File::open(setup.path("htdocs/vms").join(name)).unwrap();
        file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    }
    let server = setup.start();
    for (name, raw, text) in [("sub/large.txt", &records[..], &lines[..]), ("a.txt", RECORDS, LINES)] {
        let path = format!("/vms/{name}");
        let first = server.get(&path);
        assert!(first.text() == text, "{name}: the lines differ");
        server.log_line(&format!("file \"{name}\": rewritten as stream-LF"));
        assert!(read(&server, name) == text.as_bytes(), "{name} contains other lines");
        assert!(
            read(&server, &format!("{name}.orig")) == raw,
            "{name}.orig is another file"
        );
        let about = fs::metadata(server.path("htdocs/vms").join(name)).unwrap();
        assert_eq!(about.modified().unwrap(), modified);
        // From now on the file is sent unconverted, with a new entity tag; the original is still a record file.
        assert!(wait_until(|| {
            let response = server.get(&path);
            assert!(response.text() == text, "{name}: the lines differ");
            response.field("etag") != first.field("etag")
        }));
        assert!(
            server.get(&format!("{path}.orig")).text() == text,
            "{name}.orig: the lines differ"
        );
        assert_eq!(server.get(&path).field("last-modified"), first.field("last-modified"));
    }
    let about = fs::metadata(server.path("htdocs/vms/a.txt")).unwrap();
    assert_eq!(about.mode() & 0o7777, 0o640);
    assert_eq!(
        names(&server.path("htdocs/vms")),
        ["a.txt", "a.txt.orig", "index.html", "sub"]
    );
    assert_eq!(names(&server.path("htdocs/vms/sub")), ["large.txt", "large.txt.orig"]);
}

#[test]
fn nothing_is_rewritten_without_permission() {
    for keys in [VARIABLE, super::CACHED] {
        let server = setup(keys).file("vms/a.txt", RECORDS).age("vms/a.txt").start();
        for _ in 0..3 {
            assert_eq!(server.get("/vms/a.txt").text(), LINES);
        }
        assert_eq!(names(&server.path("htdocs/vms")), ["a.txt", "index.html"]);
        assert!(!server.stop().errors.contains("rewritten as"));
    }
}

#[test]
fn file_that_cannot_be_rewritten_is_sent_with_one_warning() {
    let setup = setup(REWRITTEN).file("vms/a.txt", RECORDS).age("vms/a.txt");
    fs::create_dir(setup.path("htdocs/vms/a.txt.orig")).unwrap();
    let server = setup.cache("size = 0").start();
    for _ in 0..3 {
        assert_eq!(server.get("/vms/a.txt").text(), LINES);
    }
    let warning = "file \"a.txt\": not rewritten: ";
    server.log_line(warning);
    assert_eq!(read(&server, "a.txt"), RECORDS);
    assert_eq!(names(&server.path("htdocs/vms")), ["a.txt", "a.txt.orig", "index.html"]);
    // A changed file is tried again, once.
    fs::write(server.path("htdocs/vms/a.txt"), [RECORDS, RECORDS].concat()).unwrap();
    sluice_testing::make_old(&server.path("htdocs/vms/a.txt"));
    for _ in 0..3 {
        assert_eq!(server.get("/vms/a.txt").text(), LINES.repeat(2));
    }
    server.log_lines(2, warning);
    assert_eq!(server.stop().errors.matches(warning).count(), 2);
}

#[test]
fn symlinks_are_followed_for_reading_but_not_for_writing() {
    let setup = setup(REWRITTEN).file("vms/real/a.txt", RECORDS).age("vms/real/a.txt");
    symlink("real/a.txt", setup.path("htdocs/vms/link.txt")).unwrap();
    symlink("real", setup.path("htdocs/vms/linked")).unwrap();
    let server = setup.start();
    assert_eq!(server.get("/vms/link.txt").text(), LINES);
    server.log_line("file \"link.txt\": not rewritten: is a symbolic link");
    assert_eq!(server.get("/vms/linked/a.txt").text(), LINES);
    server.log_line("file \"linked/a.txt\": not rewritten: its directory: ");
    assert_eq!(read(&server, "real/a.txt"), RECORDS);
    assert!(server.path("htdocs/vms/link.txt").is_symlink());
    // Requested by its own name it is rewritten, and all other names see the new file.
    assert_eq!(server.get("/vms/real/a.txt").text(), LINES);
    server.log_line("file \"real/a.txt\": rewritten");
    for path in ["/vms/link.txt", "/vms/linked/a.txt", "/vms/real/a.txt"] {
        assert!(wait_until(|| {
            let response = server.get(path);
            assert_eq!(response.text(), LINES, "{path}");
            response.field("etag") == server.get("/raw/real/a.txt").field("etag")
        }));
    }
}

#[test]
fn recently_changed_file_is_not_rewritten() {
    let server = setup(REWRITTEN).file("vms/a.txt", RECORDS).start();
    // An mtime in the future keeps the file too recent for the duration of the test.
    let file = fs::File::open(server.path("htdocs/vms/a.txt")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(3600))
        .unwrap();
    for _ in 0..3 {
        assert_eq!(server.get("/vms/a.txt").text(), LINES);
    }
    assert!(
        !server.stop().errors.contains("file \"a.txt\""),
        "the server tried to rewrite it"
    );
}

/// Runs `sluice stream-lf` in a directory with the files `a.txt` and `b.txt`.
fn stream_lf(setup: &Setup, arguments: &[&str]) -> RunResult {
    run(setup.directory(), &[&["stream-lf"], arguments].concat())
}

fn two_files() -> Setup {
    let setup = Setup::new();
    for name in ["a.txt", "b.txt"] {
        fs::write(setup.path(name), RECORDS).unwrap();
    }
    setup
}

#[test]
fn stream_lf_rewrites_files_and_reports_it() {
    let setup = two_files();
    fs::write(setup.path("b.txt"), b"\x01\0b").unwrap();
    fs::set_permissions(setup.path("a.txt"), Permissions::from_mode(0o600)).unwrap();
    let ran = stream_lf(&setup, &["a.txt", "./b.txt"]);
    assert!(ran.status.success(), "{}", ran.errors);
    assert_eq!(
        (ran.output.as_str(), ran.errors.as_str()),
        (
            "a.txt: 3 lines; the original is a.txt.orig\n./b.txt: 1 line; the original is ./b.txt.orig\n",
            ""
        )
    );
    assert_eq!(fs::read_to_string(setup.path("a.txt")).unwrap(), LINES);
    assert_eq!(fs::read(setup.path("a.txt.orig")).unwrap(), RECORDS);
    assert_eq!(fs::metadata(setup.path("a.txt")).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn stream_lf_supports_the_other_formats() {
    for (format, file, lines) in [
        ("vfc", &b"\x04\0\x01\x8dab"[..], "ab\n"),
        ("vfc:1", b"\x04\0\x01abc", "abc\n"),
        ("fixed:3", b"one\0two\0", "one\ntwo\n"),
    ] {
        let setup = two_files();
        fs::write(setup.path("a.txt"), file).unwrap();
        let ran = stream_lf(&setup, &["--format", format, "a.txt"]);
        assert!(ran.status.success(), "{format}: {}", ran.errors);
        assert_eq!(fs::read_to_string(setup.path("a.txt")).unwrap(), lines, "{format}");
    }
}

#[test]
fn stream_lf_continues_after_a_file_that_it_cannot_convert() {
    let setup = two_files();
    fs::write(setup.path("cut.txt"), &RECORDS[..9]).unwrap();
    fs::write(setup.path("done.txt"), LINES).unwrap();
    fs::write(setup.path("done.txt.orig"), RECORDS).unwrap();
    symlink("b.txt", setup.path("link.txt")).unwrap();
    let files = [
        "cut.txt",
        "none.txt",
        "done.txt",
        "link.txt",
        "htdocs",
        "done.txt.orig",
        "a.txt",
    ];
    let ran = stream_lf(&setup, &files);
    assert_eq!(ran.status.code(), Some(1));
    assert_eq!(ran.output, "a.txt: 3 lines; the original is a.txt.orig\n");
    let expected = [
        "sluice: cut.txt: byte 8: the file ends within the length of a record: not a file of variable records, or damaged; it stays as it is",
        "none.txt: cannot read: No such file or directory",
        "done.txt: was rewritten already, or another file has the name that its original would get: .orig exists",
        "link.txt: is a symbolic link: name its target instead",
        "htdocs: is not a regular file",
        "done.txt.orig: is the original of a rewritten file (.orig)",
    ];
    let lines: Vec<&str> = ran.errors.lines().collect();
    assert_eq!(lines, expected);
    assert_eq!(fs::read(setup.path("cut.txt")).unwrap(), &RECORDS[..9]);
    assert_eq!(fs::read_to_string(setup.path("done.txt")).unwrap(), LINES);
    assert_eq!(fs::read(setup.path("b.txt")).unwrap(), RECORDS);
}

#[test]
fn stream_lf_rejects_missing_files_and_invalid_formats() {
    let setup = two_files();
    for (arguments, expected) in [
        (&[][..], "<FILE>..."),
        (&["--format", "stream_lf", "a.txt"], "records are \"variable\""),
        (&["--format", "fixed:0", "a.txt"], "a record has 1 to 32767 bytes"),
    ] {
        let ran = stream_lf(&setup, arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
        assert!(ran.errors.contains(expected), "{}", ran.errors);
    }
    assert_eq!(fs::read(setup.path("a.txt")).unwrap(), RECORDS);
}

#[test]
fn record_route_serves_files_rewritten_by_stream_lf() {
    let server = setup(VARIABLE)
        .file("vms/a.txt", RECORDS)
        .file("vms/b.txt", RECORDS)
        .start();
    assert_eq!(server.get("/vms/a.txt").text(), LINES);
    let ran = run(server.setup().directory(), &["stream-lf", "htdocs/vms/a.txt"]);
    assert!(ran.status.success(), "{}", ran.errors);
    for path in ["/vms/a.txt", "/vms/b.txt", "/raw/a.txt", "/vms/a.txt.orig"] {
        assert_eq!(server.get(path).text(), LINES, "{path}");
    }
}
