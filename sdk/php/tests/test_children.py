"""Child processes of a script: they have no part of a reply, and end with the request."""

import json
import os
import unittest

from support import PhpCase, configuration, testing

ROUTES = "".join(
    f"""
  [[site.route]]
  path = "/{name}/*"
  script = {{ directory = "{directory}", mode = "rte", engine = "php", {more} max = 1, environment = {{ TMPDIR = "@TMP@" }} }}
"""
    for name, directory, more in (
        ("rte", "rte", ""),
        ("fork", "rte", 'fresh = "fork",'),
        ("app", "app", 'app = "worker.php",'),
        ("appfork", "app", 'app = "worker.php", fresh = "fork",'),
    )
)
WORKER = """<?php
    $held = proc_open('exec sleep 1000', [], $pipes);
    $pid = proc_get_status($held)['pid'];
    while (sluice_handle_request(function () { global $pid, $held; include $_GET['code']; }));
"""
# The child goes on when the script has ended, and says so.
FORKED = """
    echo "A-PRIVATE\\n";
    $pid = pcntl_fork();
    if ($pid == 0) {
        posix_setsid();
        file_put_contents('@DIR@/ready', "ready\\n");
        fgets(fopen('@DIR@/gate', 'r'));
        echo 'SECRET'; flush(); fwrite(fopen('php://stdout', 'w'), "to the log\\n");
        register_shutdown_function(function () {
            try { sluice_callout('NOOP:'); $text = 'answered'; } catch (RuntimeException $e) { $text = 'refused'; }
            file_put_contents('@DIR@/ended', $text . PHP_EOL);
        });
        exit(3);
    }
    fgets(fopen('@DIR@/ready', 'r'));
"""


class Children(PhpCase):
    configuration = configuration(ROUTES)
    files = {"app/worker.php": WORKER}

    def setUp(self):
        if self.get("echo json_encode(function_exists('pcntl_fork'));").text != "true":
            testing.missing("PHP without the extension pcntl")

    def each(self):
        """Runs a script in each mode: the name of the mode, and a function."""
        for mode in ("rte", "fork", "app", "appfork"):
            def run(code, mode=mode):
                name = self.script(code)
                path = f"/{mode}/{name}" if mode in ("rte", "fork") else f"/{mode}/?code=" + self.server.path("rte", name)
                return self.server.get(path)
            with self.subTest(mode):
                yield run

    def test_forked_child_writes_nothing_and_takes_no_request(self):
        for run in self.each():
            fifos = [self.server.fifo(name) for name in ("ready", "gate", "ended")]
            got = run(FORKED)
            self.assertEqual((got.status, got.text), (200, "A-PRIVATE\n"))
            # The child ends its script while the script of another client runs.
            got = run("file_put_contents('@DIR@/gate', \"go\\n\"); echo 'BOB ', fgets(fopen('@DIR@/ended', 'r'));")
            self.assertEqual((got.status, got.text), (200, "BOB refused\n"))
            for _ in range(3):
                self.assertEqual(run("echo 'next';").text, "next")
            for fifo in fifos:
                fifo.close()
                os.unlink(fifo.path)

    def test_both_processes_end_the_script(self):
        for run in self.each():
            for _ in range(3):
                got = run("echo 'once'; pcntl_fork();")
                self.assertEqual((got.status, got.text), (200, "once"))
            got = run("register_shutdown_function(function () { pcntl_fork(); }); echo 'twice';")
            self.assertEqual((got.status, got.text), (200, "twice"))

    def test_children_end_with_the_request(self):
        for run in self.each():
            code = """
                exec('sleep 1000 >/dev/null 2>&1 & echo $!', $out); // its shell has ended
                if (($child = pcntl_fork()) == 0) { sleep(1000); exit; }
                echo json_encode([(int)$out[0], $child]);"""
            for pid in json.loads(run(code).text):
                testing.wait_gone(pid)

    def test_session_of_its_own_goes_on(self):
        for run in self.each():
            pid = int(run("exec('setsid sleep 1000 >/dev/null 2>&1 & echo $!', $out); while (posix_getsid((int)$out[0]) == posix_getsid(0)) usleep(1000); echo $out[0];").text)
            self.assertEqual(run("echo 'next';").text, "next")
            self.assertTrue(testing.is_alive(pid))
            run(f"posix_kill({pid}, 9);")
            testing.wait_gone(pid)

    def test_children_of_the_boot_stay(self):
        first = self.server.get("/app/?code=" + self.server.path("rte", self.script("exec('sleep 1000 >/dev/null 2>&1 &'); echo $pid;"))).text
        again = self.server.get("/app/?code=" + self.server.path("rte", self.script("echo $pid, ' ', proc_get_status($held)['running'] ? 'runs' : 'ended';"))).text
        self.assertEqual(again, first + " runs")

    def test_child_while_a_memory_buffer_is_used(self):
        """The child's output is no part of the buffer, nor of the mailbox, which is descriptor 1 then."""
        for run in self.each():
            got = run("sluice_buffer_begin(65536); echo 'begin,'; flush(); if (($c = pcntl_fork()) == 0) { sluice_buffer_write('CHILD'); echo 'CHILD'; flush(); fwrite(fopen('php://stdout', 'w'), 'CHILD'); exit; } pcntl_waitpid($c, $s); echo 'end'; sluice_buffer_end();")
            self.assertEqual(got.text, "begin,end")


if __name__ == "__main__":
    unittest.main()
