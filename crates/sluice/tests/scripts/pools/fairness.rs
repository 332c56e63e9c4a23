//! Scripts that hang, clients that ask for much, and clients that leave.

use super::in_advance::SHELL_COUNTER;
use super::{MOMENT, WAITER, ask, pid_and_count, start_waiter};
use sluice_testing::{Client, Server, Setup};

#[test]
fn a_script_whose_processes_all_hang_delays_no_other_one() {
    for mode in ["cgi", "cgiplus"] {
        let server = Setup::new()
            .limits("processes = 8")
            .cgi("max = 20")
            .cgiplus("max = 20")
            .python("waiter", WAITER)
            .script(
                "healthy",
                "if [ \"$CGIPLUSEOF\" ]; then while read -r line <&3 && [ \"$line\" ]; do :; done; fi\n\
                 printf 'Content-Type: text/plain\\n\\nwell'\necho \"$CGIPLUSEOF\"",
            )
            .start();
        let begun = server.setup().event_fifo("begun");
        let _gate = server.setup().gate("go");
        let path = format!("/{mode}-bin/waiter?x");
        let _clients: Vec<Client> = (0..10).map(|_| ask(&server, &path)).collect();
        // The last of the eight processes is for scripts that have none.
        for _ in 0..7 {
            begun.line();
        }
        assert_eq!(begun.line_within(MOMENT), None, "{mode}");
        for _ in 0..5 {
            let response = server.get(&format!("/{mode}-bin/healthy"));
            assert!(response.text().starts_with("well"), "{mode}: {}", server.log());
        }
    }
}

/// Sends a request of this client, as a trusted proxy does.
fn ask_for(server: &Server, client: &str, query: &str) -> Client {
    let mut connection = server.connect();
    connection.send(format!(
        "GET /cgiplus-bin/waiter?{query} HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: {client}\r\n\r\n"
    ));
    connection
}

#[test]
fn requests_of_a_client_with_many_wait_behind_those_of_others() {
    let setup = Setup::new()
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .cgiplus("max = 1, requests_per_client = 1, queue = 4");
    let (server, begun, mut gate) = start_waiter(setup);
    let mut clients = vec![ask_for(&server, "192.0.2.1", "first")];
    begun.line();
    for number in ["second", "third"] {
        clients.push(ask_for(&server, "192.0.2.1", number));
        assert_eq!(begun.line_within(MOMENT), None);
    }
    // Half of the queue is for others.
    let refused = ask_for(&server, "192.0.2.1", "fourth").response();
    assert_eq!(refused.status, 503);
    assert!(refused.field("retry-after").is_some());
    server.log_line("requests_per_client = 1");
    clients.push(ask_for(&server, "2001:db8::7", "other"));
    assert_eq!(begun.line_within(MOMENT), None);
    for expected in ["other", "second", "third"] {
        gate.open();
        assert_eq!(begun.line(), expected);
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
}

#[test]
fn client_grace_lets_a_script_of_cgi_finish_and_then_stops_it() {
    let script = "printf 'Content-Type: text/plain\\n\\nbegun'\necho $$ > \"$TEST_DIR/begun\"\n\
                  read line < \"$TEST_DIR/go\"\necho written\necho done > \"$TEST_DIR/done\"";
    for (grace, is_finished) in [("20s", true), ("100ms", false)] {
        let setup = Setup::new()
            .cgi(&format!("client_grace = \"{grace}\", kill_grace = \"100ms\""))
            .script("slow", script);
        let (begun, done, mut gate) = (setup.event_fifo("begun"), setup.event_fifo("done"), setup.gate("go"));
        let server = setup.start();
        let mut client = ask(&server, "/cgi-bin/slow");
        begun.line();
        client.head();
        drop(client);
        // The exchange is over for the client.
        let line = server.access_lines(1).remove(0);
        assert!(line.contains("/cgi-bin/slow"), "{line}");
        if is_finished {
            gate.open();
            assert_eq!(done.line(), "done");
        }
        server.wait_for_processes(0);
        assert!(done.is_silent());
    }
}

#[test]
fn a_start_above_the_soft_limit_ends_an_idle_process_of_another_script() {
    let server = Setup::new()
        .limits("processes = 100\nprocesses_soft = 1")
        .cgiplus("max = 1")
        .environment("RUST_LOG", "debug")
        .script("one", SHELL_COUNTER)
        .script("two", SHELL_COUNTER)
        .start();
    let (first, _) = pid_and_count(&server, "/cgiplus-bin/one");
    let (second, _) = pid_and_count(&server, "/cgiplus-bin/two");
    server.wait_for_processes(1);
    assert_ne!(first, second);
    assert_eq!(pid_and_count(&server, "/cgiplus-bin/two").1, 2, "it is still there");
    server.log_line("limits.processes_soft");
}
