//! Transfers through the ring by programs that use the C library.

use super::assert_numbered;
use super::plain::PLAIN;
use sluice_testing::{Ending, Setup, warnings_and_errors};

#[test]
fn bytes_arrive_unchanged() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    for (length, buffer, chunk, letters) in [
        (0, 8192, 1, "c"),
        (0, 8192, 1, "t"),
        (1, 8192, 1, "-"),
        (8191, 8192, 100, "c"),
        (8192, 8192, 8192, "-"),
        (8193, 8192, 8192, "t"),
        (20_000, 8192, 3, "c"),
        (500_000, 8192, 5000, "ct"),
        (500_000, 12_288, 100_000, "-"),
        (3_000_000, 65_536, 70_000, "c"),
        (3_000_001, 65_536, 20_000, "t"),
        (6_000_000, 1 << 20, 1 << 20, "c"),
        (6_000_000, 3_000_000, 300_000, "t"),
        (100_000, 0, 1000, "ct"),
    ] {
        for mode in ["cgi", "cgiplus"] {
            let path = format!("/{mode}-bin/bulk?{length}+{buffer}+{chunk}+{letters}");
            let response = server.get(&path);
            let tail = if letters.contains('t') { "tail" } else { "" };
            assert_numbered(&response, length, tail, &path);
        }
    }
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

#[test]
fn start_of_a_ring_is_never_mixed_with_doorbells() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    for turn in 0..60 {
        let path = format!("/cgiplus-bin/bulk?{}+8192+100+t", 1 + turn * 97);
        assert_numbered(&server.get(&path), 1 + turn * 97, "tail", &path);
    }
}

#[test]
fn end_of_the_reply_ends_the_ring() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    for mode in ["cgi", "cgiplus", "cgiplus"] {
        for letters in ["n", "nc"] {
            let path = format!("/{mode}-bin/bulk?300000+65536+9000+{letters}");
            assert_numbered(&server.get(&path), 300_000, "", &path);
        }
    }
}

#[test]
fn one_process_can_use_rings_of_many_sizes() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    let mut pids = Vec::new();
    for (buffer, bytes) in [
        (8192, 8192),
        (1 << 20, 1 << 20),
        (65_000, 65_536),
        (0, 1 << 20),
        (1, 8192),
        (100_000, 102_400),
    ] {
        let path = format!("/cgiplus-bin/bulk?400000+{buffer}+50000+c");
        let response = server.get(&path);
        assert_numbered(&response, 400_000, "", &path);
        assert_eq!(response.field("x-buffer"), Some(format!("/dev/fd/4 {bytes}").as_str()));
        pids.push(response.field("x-pid").unwrap().to_owned());
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "{pids:?}");
}

#[test]
fn head_sends_no_ring_data_and_the_process_stays_usable() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    let mut client = server.connect();
    for mode in ["cgiplus", "cgi"] {
        for letters in ["c", "t", "n"] {
            let path = format!("/{mode}-bin/bulk?100000+8192+5000+{letters}");
            client.send(format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
            let response = client.response_to("HEAD");
            assert_eq!((response.status, response.body.len()), (200, 0), "{path}");
            if letters == "c" {
                assert_eq!(response.field("content-length"), Some("100000"));
            }
            assert_numbered(
                &client.get("/cgiplus-bin/bulk?30000+8192+700+t").response(),
                30_000,
                "tail",
                &path,
            );
        }
    }
}

#[test]
fn http_1_0_client_gets_the_ring_up_to_the_end_of_the_connection() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    let response = server.send("GET /cgiplus-bin/bulk?300000+65536+9000+t HTTP/1.0\r\n\r\n");
    assert_eq!(response.field("transfer-encoding"), None);
    assert_numbered(&response, 300_000, "tail", "HTTP/1.0");
}

#[test]
fn record_mailbox_supports_rings() {
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .cgiplus("mailbox = \"record\", max = 1")
        .c_programs()
        .start();
    for mode in ["cgi", "cgiplus", "cgiplus"] {
        for letters in ["c", "t", "n"] {
            let path = format!("/{mode}-bin/bulk?300000+8192+900+{letters}");
            let tail = if letters == "t" { "tail" } else { "" };
            assert_numbered(&server.get(&path), 300_000, tail, &path);
        }
    }
}

#[test]
fn rings_of_several_processes_do_not_mix() {
    let server = Setup::new()
        .cgiplus("max = 4")
        .c_programs()
        .python("plain", PLAIN)
        .start();
    std::thread::scope(|scope| {
        for turn in 0..6 {
            let server = &server;
            scope.spawn(move || {
                for length in [100_000 + turn, 1_000_000 + turn, 3 + turn] {
                    for path in ["cgi-bin/bulk", "cgiplus-bin/bulk"] {
                        let path = format!("/{path}?{length}+16384+7000+c");
                        assert_numbered(&server.get(&path), length, "", &path);
                    }
                    let path = format!("/cgiplus-bin/plain?{length}+16k+c");
                    assert_numbered(&server.get(&path), length, "", &path);
                }
            });
        }
    });
}

#[test]
fn demonstrator_sends_the_same_bytes_by_mailbox_and_buffer() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    let get = |mode: &str, query: &str| {
        let response = server.get(&format!("/{mode}-bin/membufdemo?{query}"));
        assert_eq!(
            (response.status, response.ending),
            (200, Ending::Complete),
            "{mode} {query}"
        );
        response
    };
    for mode in ["cgi", "cgiplus"] {
        for (mailbox, buffer, record) in [
            ("5", "5+b", 65_536),
            ("1+m+32", "1+b+32", 32),
            ("3+m+256", "3+b+256+2", 256),
            ("3+m+10000", "3+b+10000+1", 10_000),
            ("2+m+32k", "2+b+32k+5", 32_768),
        ] {
            let (mailbox_response, buffer_response) = (get(mode, mailbox), get(mode, buffer));
            let megabytes: usize = mailbox.split('+').next().unwrap().parse().unwrap();
            let is_correct = |body: &[u8]| {
                let blocks = body.chunks(record).enumerate();
                body.len() == megabytes << 20
                    && blocks
                        .into_iter()
                        .all(|(at, block)| block.iter().all(|byte| usize::from(*byte) == at & 0xff))
            };
            assert!(is_correct(&mailbox_response.body), "{mode} {mailbox}");
            assert!(
                mailbox_response.body == buffer_response.body,
                "{mode} {mailbox} and {buffer}"
            );
            assert_eq!(mailbox_response.field("x-mbuf"), Some("NULL 0"));
            assert!(
                buffer_response.field("x-mbuf").unwrap().starts_with("/dev/fd/4 "),
                "{mode} {buffer}"
            );
            assert_eq!(buffer_response.field("x-mrs"), Some(record.to_string().as_str()));
        }
    }
    let too_large = server.get("/cgiplus-bin/membufdemo?1+b+0+1000");
    assert_eq!(too_large.status, 500, "over memory_buffer_max");
    assert!(too_large.text().contains("no memory buffer"), "{}", too_large.text());
}
