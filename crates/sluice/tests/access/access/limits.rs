//! Limits on wrong passwords: a delay, then a refusal; other users and clients notice nothing.

use std::thread;
use std::time::Instant;

use super::{ask_as, basic, request, setup, status};

#[test]
fn wrong_passwords_are_answered_late_and_then_refused_with_the_right_one_too() {
    let server = setup()
        .route("path = \"/secret/*\"\naccess = { users = \"users\", failures = 3, refused_for = \"1h\" }")
        .start();
    let begin = Instant::now();
    assert_eq!(ask_as(&server, "bob", "GET", "/secret/a.txt").status, 200);
    for delay in [300, 600, 1200] {
        let begin = Instant::now();
        assert_eq!(status(&server, "GET", "/secret/a.txt", &basic("ann", "wrong")), 401);
        assert!(begin.elapsed().as_millis() >= delay, "{:?}", begin.elapsed());
    }
    let refused = server.send(request("GET", "/secret/a.txt", &basic("ann", "open sesame")));
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!(wait > 3600 - 2 - begin.elapsed().as_secs() && wait <= 3600, "{wait}");
    server.log_line("too many wrong passwords for user \"ann\"");
    assert_eq!(
        ask_as(&server, "eve", "GET", "/secret/a.txt").status,
        200,
        "another user"
    );
    assert_eq!(
        ask_as(&server, "bob", "GET", "/secret/a.txt").status,
        200,
        "a verified one"
    );
    assert_eq!(server.get("/a.txt").status, 200);
}

#[test]
fn a_reload_forgets_no_wrong_passwords() {
    let server = setup()
        .route("path = \"/secret/*\"\naccess = { users = \"users\", failures = 1, refused_for = \"1h\" }")
        .start();
    assert_eq!(ask_as(&server, "bob", "GET", "/secret/a.txt").status, 200);
    assert_eq!(status(&server, "GET", "/secret/a.txt", &basic("ann", "wrong")), 401);
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").status, 429);
    assert_eq!(ask_as(&server, "bob", "GET", "/secret/a.txt").status, 200);
}

#[test]
fn a_flood_of_wrong_passwords_is_bounded_and_others_are_served() {
    let server = setup()
        .workers(1)
        .route("path = \"/secret/*\"\naccess = { users = \"users\", failures = 20 }")
        .start();
    assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").status, 200);
    thread::scope(|scope| {
        let flood = |thread: usize| {
            let mut statuses = Vec::new();
            let mut client = server.connect();
            for number in 0..100 {
                // A password for each of many users, all from one address.
                let fields = basic(&format!("u{thread}-{number}"), "wrong");
                client.send(request("GET", "/secret/a.txt", &fields));
                statuses.push(client.response().status);
                if statuses.last() == Some(&429) {
                    break;
                }
            }
            statuses
        };
        let floods: Vec<_> = (0..40).map(|thread| scope.spawn(move || flood(thread))).collect();
        for _ in 0..50 {
            assert_eq!(server.get("/a.txt").status, 200);
            assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").status, 200);
        }
        for flood in floods {
            let statuses = flood.join().unwrap();
            assert!(
                statuses.iter().all(|status| [401, 429, 503].contains(status)),
                "{statuses:?}"
            );
            assert_eq!(statuses.last(), Some(&429), "the address is refused at last");
        }
    });
}
