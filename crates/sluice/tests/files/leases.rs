//! Files on which another process holds a lease, as the owner of a file may, or a file server for its clients: opening them fails for as long
//! as that process likes, and delays nothing else.

use std::time::{Duration, Instant};

use sluice_testing::{Leases, Response, Server, Setup, make_old};

/// Less than the time after which the system ends a lease (fs.lease-break-time, 45 s).
const AT_ONCE: Duration = Duration::from_secs(10);

/// Requests files beside each other, on one worker.
#[track_caller]
fn response_at_once(server: &Server, path: &str) -> Response {
    let begun = Instant::now();
    let response = server.get(path);
    assert!(begun.elapsed() < AT_ONCE, "{path} took {:?}", begun.elapsed());
    response
}

#[track_caller]
fn assert_leased(server: &Server, path: &str) {
    let mut leased = server.connect();
    leased.get(path);
    assert_eq!(response_at_once(server, "/other.txt").text(), "other", "beside {path}");
    let response = leased.response();
    assert_eq!(response.status, 503, "{path}");
    assert_eq!(response.field("retry-after"), Some("2"), "{path}");
}

fn setup() -> Setup {
    Setup::new()
        .workers(1)
        .file("other.txt", "other")
        .file("a.txt", "a")
        .file("d/index.html", "index")
}

#[test]
fn a_file_and_an_index_page_with_a_lease_are_refused_for_now() {
    let setup = setup();
    let leases = Leases::hold(&[&setup.path("htdocs/a.txt"), &setup.path("htdocs/d/index.html")]);
    let server = setup.start();
    for path in ["/a.txt", "/d/"] {
        assert_leased(&server, path);
    }
    let line = server.log_line("holds a lease");
    assert!(line.contains("a.txt"), "{line}");
    drop(leases);
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_protected_file_does_not_tell_by_its_lease() {
    let protected = "path = \"/a.txt\"\naccess = { allow = [\"net:10.0.0.0/8\"] }";
    let setup = setup().route(protected);
    let _leases = Leases::hold(&[&setup.path("htdocs/a.txt")]);
    let server = setup.start();
    assert_eq!(response_at_once(&server, "/a.txt").status, 403);
}

#[test]
fn a_listing_shows_files_with_leases() {
    let setup = setup()
        .site("listing = true")
        .file("l/b.txt", "bb")
        .file("l/c.txt", "c");
    make_old(&setup.path("htdocs/l/b.txt"));
    let _leases = Leases::hold(&[&setup.path("htdocs/l/b.txt")]);
    let server = setup.start();
    let mut listing = server.connect();
    listing.get("/l/");
    assert_eq!(response_at_once(&server, "/other.txt").text(), "other");
    let begun = Instant::now();
    let listing = listing.response();
    assert!(begun.elapsed() < AT_ONCE);
    assert!(
        listing.text().contains("b.txt") && listing.text().contains("c.txt"),
        "{}",
        listing.text()
    );
}

#[test]
fn a_file_with_a_lease_that_a_script_names_is_refused_for_now() {
    let keys = "send_files = { \"/protected/\" = \"private\" }";
    let setup = setup()
        .cgi(keys)
        .script("x", "printf 'X-Sendfile: %s\\n\\n' \"$TEST_DIR/private/a.txt\"");
    sluice_testing::write_with_mode(&setup.path("private/a.txt"), b"a", 0o644);
    let _leases = Leases::hold(&[&setup.path("private/a.txt")]);
    let server = setup.start();
    assert_leased(&server, "/cgi-bin/x");
}
