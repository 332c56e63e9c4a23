"""fresh = "fork": a process for each request, with the modules of the script imported before."""

import os
import signal
import unittest

from support import EngineCase, testing


class Forks(EngineCase):
    more = ', fresh = "fork"'
    files = {
        "scripts/heavy.py": "import os\npid = os.getpid()\nstate = []\n",
        "scripts/loud.py": "print('printed by an import')\nraise SystemExit(1)\n",
    }

    def test_each_request_has_a_process_and_modules_are_imported_once(self):
        source = "try:\n  import heavy\nexcept ImportError:\n  pass\nimport os\nheavy.state.append(1)\nprint(os.getpid(), heavy.pid, heavy.state)"
        lines = [self.output(source).split(maxsplit=2) for _ in range(3)]
        self.assertEqual(len({line[0] for line in lines}), 3)
        self.assertEqual(len({line[1] for line in lines}), 1)
        self.assertNotIn(lines[0][1], {line[0] for line in lines})
        self.assertEqual({line[2] for line in lines}, {"[1]\n"})

    def test_the_process_of_a_request_has_served_no_other(self):
        self.assertEqual([self.output("import sluice\nprint(sluice.uses(), sluice.is_persistent())") for _ in range(2)], ["1 False\n"] * 2)

    def test_bodies_and_output(self):
        body = b"x" * 3_000_000
        self.assertEqual(self.output("import sys\nprint(len(sys.stdin.read()))", body=body), "3000000\n")
        self.assertEqual(len(self.output("for i in range(200000): print('%09d' % i)")), 2_000_000)
        self.assertEqual(self.output("import os, sys\nprint('a', flush=True); os.write(1, b'b\\n'); os.system('cat'); sys.exit(1)", body=b"c"), "a\nb\nc")

    def test_failures(self):
        for source in ("1/0", "import os\nos._exit(3)", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "if", "import sys\nsys.exit(2)", "import no_such_module"):
            with self.subTest(source):
                self.assertEqual(self.run_script(source).status, 502)
        for text in ("division by zero", "exit status 3", "SIGSEGV", "SyntaxError", "exit status 2", "no_such_module"):
            self.server.log_line(text)
        self.assertEqual(self.run_script("import os\nprint('Content-Type: text/plain\\n\\nok', flush=True)\nos._exit(0)").text, "ok\n")

    def test_an_import_that_prints_or_exits_does_no_harm_to_the_parent(self):
        self.assertEqual(self.output("try:\n  import loud\nexcept SystemExit: pass\nprint('x')"), "printed by an import\nx\n")

    def test_child_processes_that_are_left_running_are_killed(self):
        pid = self.output("import os\nprint(end='', flush=True)\nos.system('sleep 1000 & echo $!')")
        testing.wait_gone(int(pid))

    def test_processes_of_a_child_that_dies_write_nothing_into_the_next_response(self):
        for end in ("os.kill(os.getpid(), 9)", "os._exit(0)", "pass"):
            with self.subTest(end):
                self.run_script(
                    "import os, time\nprint('Content-Type: text/plain\\n\\nx', flush=True)\npid = os.fork()\nif pid == 0: time.sleep(1000)\n"
                    f"os.system('(sleep 1000; echo) & echo $! > @TMP@/pid'); open('@TMP@/pid', 'a').write(str(pid))\n{end}"
                )
                for pid in self.output("import os\nprint(open('@TMP@/pid').read()); os.unlink('@TMP@/pid')").split():
                    self.assertFalse(testing.is_alive(int(pid)), pid)

    def test_a_process_with_a_session_of_its_own_ends_the_engine(self):
        first, daemon = self.output("import os, subprocess\nprint(os.getppid(), subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)").split()
        self.assertNotEqual(self.output("import os\nprint(os.getppid())").strip(), first)
        testing.wait_gone(int(daemon))

    def test_a_changed_script_is_loaded_again(self):
        self.assertEqual(self.output("import json\nprint(1)"), "1\n")
        self.assertEqual(self.output("import json\nprint(22)"), "22\n")


if __name__ == "__main__":
    unittest.main()
