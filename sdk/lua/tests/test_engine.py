"""The engine for Lua under the real server. Most of it holds for every engine (docs/reference/engine-protocol.md)."""

import os
import shutil
import subprocess
import sys
import unittest

LUA = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(LUA, ".."))
import testing  # noqa: E402

HEAD = 'print("Content-Type: text/plain\\n")\n'

SCRIPTS = {
    "environment": HEAD + 'print(os.getenv("SCRIPT_NAME"), os.getenv("QUERY_STRING"), os.getenv("SCRIPT_RTE"), os.getenv("CGIPLUSEOF"), os.getenv("OWN"), arg[0]:match("[^/]*$"))',
    "globals": HEAD + "count = (count or 0) + 1\nprint(count, _G.count)",
    "libraries": HEAD + 'print(string.own, ("x").rep == string.rep, package.own, os.setlocale())\nstring.own, package.path = 1, "nowhere"\n'
    'pcall(function() getmetatable("").__index = {} end)\nos.setlocale("C.UTF-8")\ndebug.sethook(function() error("a hook") end, "", 100)',
    "stdin": HEAD + 'print(#io.read("a"), io.read("a") == "", io.stdin:read("n"))',
    "part": HEAD + "print(io.read(3))",
    "lines": HEAD + "for line in io.lines() do io.write('[', line, ']') end",
    "die": HEAD + "print('lost')\nlocal x = nil + 1",
    "die_late": HEAD + "print('sent')\nio.flush()\nio.open('@DIR@/go'):read('l')\nerror('too late')",
    "die_table": "error({})",
    "exit": HEAD + "print('whole')\nos.exit()\nprint('never')",
    "exit_failed": "os.exit(3)",
    "crash": HEAD + 'io.flush()\nos.execute("kill -9 $PPID")',
    "open": HEAD + 'leaked = io.open(arg[0])\nlocal p = io.popen("ls -l /proc/$PPID/fd | grep -c open.lua")\nprint(tonumber(p:read("a")))\np:close()',
    "large": "io.write('Content-Type: application/octet-stream\\n\\n')\nfor i = 1, 100 do io.write(('x'):rep(30000)) end",
    "syntax": "print(",
    "callout": HEAD + 'io.write(os.getenv("CGIPLUSESC"), "\\nMAP-PATH: /a.txt\\n", os.getenv("CGIPLUSEOT"), "\\n")\nio.flush()\n'
    'local answers = io.open("/dev/fd/3")\nprint(answers:read("l"))\nanswers:close()',
    "pid": HEAD + 'local p = io.popen("echo $PPID")\nio.write(p:read("a"))\np:close()',
    "empty": "",
    "shebang": "#!/usr/bin/lua5.4\n" + HEAD + "print(debug.getinfo(1).currentline)",
    "write_nil": HEAD + "io.write(nil)",
}


def engine_of_the_page():
    """The engine in the page about the protocol, as a reader would copy it."""
    with open(os.path.join(LUA, "../../docs/reference/engine-protocol.md"), encoding="utf-8") as page:
        return page.read().split("```lua\n")[1].split("```")[0]


@unittest.skipUnless(shutil.which("lua5.4") or os.environ.get("SLUICE_TEST_REQUIRE_ALL"), "SKIPPED, NOT CHECKED: lua5.4 is not installed")
class Engine(testing.ServerCase):
    configuration = f"""
        [[site]]
        root = "htdocs"
          [[site.route]]
          path = "/lua/*"
          script = {{ directory = "scripts", mode = "rte", max = 1, engine = {{ program = "lua5.4", arguments = ["{LUA}/engine.lua"] }}, environment = {{ OWN = "value", TMPDIR = "@TMP@" }} }}
          [[site.route]]
          path = "/page/*"
          script = {{ directory = "scripts", mode = "rte", max = 1, engine = {{ program = "lua5.4", arguments = ["@DIR@/page.lua"] }} }}
          [[site.route]]
          path = "/examples/*"
          script = {{ directory = "{LUA}/examples", mode = "rte", max = 1, engine = {{ program = "lua5.4", arguments = ["{LUA}/engine.lua"] }} }}
    """
    files = {f"scripts/{name}.lua": text for name, text in SCRIPTS.items()} | {"htdocs/a.txt": "text", "page.lua": engine_of_the_page()}

    def text(self, name, body=None, method="GET"):
        response = self.server.request("POST" if body is not None else method, f"/lua/{name}", (), body)
        self.assertEqual((response.status, response.is_complete), (200, True), response)
        return response.text

    def test_the_examples_run_in_one_process_that_keeps_modules(self):
        self.assertIn("Hello, 127.0.0.1.", self.server.get("/examples/hello.lua").text)
        self.assertEqual([self.server.get("/examples/counter.lua").text for _ in range(3)], ["1\n", "2\n", "3\n"])
        self.assertIn("Hello", self.server.get("/examples/hello.lua").text)
        self.assertEqual(self.server.get("/examples/counter.lua").text, "4\n")

    def test_two_scripts_share_a_process_and_their_variables_are_their_own(self):
        pid = self.text("pid.lua")
        name, query, engine, end, own, argument = self.text("environment.lua?a=1").split("\t")
        self.assertEqual((name, query, end, own, argument), ("/lua/environment.lua", "a=1", "nil", "value", "environment.lua\n"))
        self.assertTrue(engine.startswith("lua"), engine)
        self.assertEqual(self.text("environment.lua").split("\t")[1], "")
        self.assertEqual(self.text("pid.lua"), pid)

    def test_globals_and_changes_to_libraries_do_not_reach_the_next_request(self):
        self.assertEqual([self.text("globals.lua") for _ in range(3)], ["1\t1\n"] * 3)
        self.assertEqual([self.text("libraries.lua") for _ in range(3)], ["nil\ttrue\tnil\tC\n"] * 3)

    def test_the_body_ends_where_it_ends_and_none_of_it_is_left(self):
        self.assertEqual(self.text("stdin.lua", b"x" * 300_000), "300000\ttrue\tnil\n")
        self.assertEqual(self.text("stdin.lua"), "0\ttrue\tnil\n")
        self.assertEqual(self.text("part.lua", b"abcdef" * 10_000), "abc\n")
        self.assertEqual(self.text("part.lua", b"uvwxyz"), "uvw\n")
        self.assertEqual(self.text("lines.lua", b"a\nb"), "[a][b]")

    def test_a_failure_is_answered_with_502_and_the_process_stays(self):
        pid = self.text("pid.lua")
        for name in ("die.lua", "die_table.lua", "exit_failed.lua", "syntax.lua", "empty.lua", "write_nil.lua"):
            response = self.server.get(f"/lua/{name}")
            self.assertEqual(response.status, 502, name)
            self.assertNotIn("lost", response.text)
        self.server.log_line("attempt to perform arithmetic on a nil value")
        self.assertEqual(self.text("pid.lua"), pid)

    def test_a_failure_after_a_part_of_the_body_aborts_the_response(self):
        go = self.server.fifo("go")
        with self.server.connect() as client:
            client.get("/lua/die_late.lua").head()
            client.read_body_until(b"sent\n")
            go.release()
            self.assertIsNone(client.read_chunk(), "no last chunk")
        self.assertEqual(self.text("exit.lua"), "whole\n")

    def test_exit_ends_the_script_and_not_the_process(self):
        pid = self.text("pid.lua")
        self.assertEqual(self.text("exit.lua"), "whole\n")
        self.assertEqual(self.text("pid.lua"), pid)

    def test_a_crash_of_the_engine_affects_one_request(self):
        self.assertIn(self.server.get("/lua/crash.lua").status, (200, 502))
        self.assertEqual(self.text("globals.lua"), "1\t1\n")

    def test_open_files_are_closed(self):
        self.assertEqual([self.text("open.lua") for _ in range(4)], ["1\n"] * 4)

    def test_large_output(self):
        self.assertEqual(self.text("large.lua"), "x" * 3_000_000)

    def test_callouts_work_from_scripts(self):
        self.assertEqual(self.text("callout.lua"), f"200 {self.server.path('htdocs/a.txt')}\n")

    def test_a_changed_script_is_compiled_again(self):
        self.server.write("scripts/changes.lua", HEAD + "print('one')")
        self.assertEqual(self.text("changes.lua"), "one\n")
        self.server.write("scripts/changes.lua", HEAD + "print('two')")
        self.assertEqual(self.text("changes.lua"), "two\n")

    def test_a_first_line_for_the_kernel_is_skipped(self):
        self.assertEqual(self.text("shebang.lua"), "3\n")

    def test_the_engine_of_the_page_works_as_it_says(self):
        get = self.server.get
        self.assertEqual(get("/page/environment.lua?a=1").text.split("\t")[:2], ["/page/environment.lua", "a=1"])
        self.assertEqual([get("/page/globals.lua").text for _ in range(2)], ["1\tnil\n"] * 2)
        response = get("/page/die.lua")
        self.assertTrue(response.status == 502 or not response.is_complete, response)
        self.assertEqual(get("/page/exit.lua").text, "whole\n")
        self.assertEqual(get("/page/large.lua").body, b"x" * 3_000_000)

    def test_unknown_options_are_refused(self):
        done = subprocess.run(["lua5.4", f"{LUA}/engine.lua", "--fresh=fork"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (64, "engine.lua: unknown option --fresh=fork\n"))


if __name__ == "__main__":
    unittest.main()
