//! Scripts that start processes outside their process group, or leave it: all of them end with the script.
//!
//! Not here: processes within the group (`lingering`).

use sluice_testing::{Setup, warnings_and_errors};

/// Scripts that start processes outside their process group: by setpgid(2), by timeout(1), by the job control of a shell,
/// and by a double fork. `begun` is written when the stray process runs.
const STRAYS: [(&str, &str); 6] = [
    ("timeout", "timeout 300 sleep 1000 >&- 2>&- <&- &\n"),
    // The parent of timeout is killed with the group while the stray processes are searched.
    (
        "parent-in-group",
        "( timeout 300 sleep 1000 & timeout 300 sleep 1000 & wait ) >&- 2>&- <&- &\n",
    ),
    ("jobs", "set -m\nsleep 1000 >&- 2>&- <&- &\n"),
    (
        "nested",
        "timeout 300 sh -c 'set -m; trap \"\" TERM HUP; timeout 300 sleep 1000 & wait' >&- 2>&- <&- &\n",
    ),
    (
        "double-fork",
        "python\nif os.fork() == 0:\n    os.setpgid(0, 0)\n    if os.fork() == 0:\n        os.setpgid(0, 0)\n        for fd in (0, 1, 2):\n            os.close(fd)\n        os.execvp('sleep', ['sleep', '1000'])\n    os._exit(0)\nos.wait()\n",
    ),
    (
        "server-group",
        "python\ntry:\n    os.setpgid(0, os.getpgid(os.getppid()))\nexcept PermissionError:\n    pass\n",
    ),
];

/// Adds a script that starts a stray process and then does `rest`, in the language of `stray`.
fn add(setup: Setup, stray: &str, shell_rest: &str, python_rest: &str) -> Setup {
    match stray.strip_prefix("python\n") {
        Some(stray) => setup.python("script", &format!("{stray}{python_rest}")),
        None => setup.script("script", &format!("{stray}{shell_rest}")),
    }
}

#[test]
fn processes_outside_the_group_end_with_their_script() {
    for (name, stray) in STRAYS {
        let shell = "printf 'Content-Type: text/plain\\n\\ndone'";
        let server = add(Setup::new().cgi("max = 1"), stray, shell, "put(HEAD + b'done')").start();
        for _ in 0..3 {
            assert_eq!(server.get("/cgi-bin/script").text(), "done", "{name}");
        }
        server.assert_idle();
        let ended = server.stop();
        assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn script_that_leaves_its_group_is_ended_and_its_slot_is_free_again() {
    for (name, stray) in STRAYS {
        let shell = "exec 9> \"$TEST_DIR/up\"; echo up >&9; trap '' TERM; while :; do sleep 1000; done";
        let python =
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nreport('up', 'up')\nwhile True:\n    signal.pause()";
        let keys = "max = 1, kill_grace = \"50ms\"";
        // The FIFO first, because the script opens it.
        let setup = Setup::new().cgi(keys);
        let up = setup.event_fifo("up");
        let server = add(setup, stray, shell, python).start();
        for _ in 0..2 {
            let mut client = server.connect();
            client.get("/cgi-bin/script");
            assert_eq!(up.line(), "up", "{name}: the slot of the one before is not free");
            drop(client);
        }
        server.assert_idle();
    }
}

#[test]
fn kept_process_and_its_strays_end_with_the_server() {
    for (name, stray) in STRAYS {
        let Some(stray) = stray.strip_prefix("python\n") else {
            continue;
        };
        let server = Setup::new()
            .python(
                "kept",
                &format!("{stray}while accept():\n    put(HEAD + b'done')\n    finish()"),
            )
            .start();
        assert_eq!(server.get("/cgiplus-bin/kept").text(), "done", "{name}");
        let ended = server.stop();
        assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn orphan_of_a_running_script_is_reaped() {
    let server = Setup::new()
        .script(
            "forks",
            "(sh -c 'exit 0' &) ; echo up > \"$TEST_DIR/up\"; read -r line < \"$TEST_DIR/go\"; printf 'Content-Type: text/plain\\n\\ndone'",
        )
        .start();
    let (up, mut gate) = (server.setup().event_fifo("up"), server.setup().gate("go"));
    let mut client = server.connect();
    client.get("/cgi-bin/forks");
    up.line();
    // The script alone: its orphan has ended and is no zombie.
    server.wait_for_processes(1);
    gate.open();
    assert_eq!(client.response().text(), "done");
}
