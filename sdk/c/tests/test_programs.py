"""The four programs, as CGI and as CGIplus."""

import unittest

import server
from test_requests import Case

PRINTABLE = "".join(map(chr, range(ord("!"), ord("~") + 1)))


def pattern(total, record):
    """The body of membufdemo."""
    cycle = b"".join(bytes([n]) * record for n in range(256))
    return (cycle * (total // len(cycle) + 1))[:total]


def lines(count):
    """The body of cgiplustest."""
    text = "".join((PRINTABLE * 2)[n % 94 : n % 94 + 79] + "\n" for n in range(count // 80 + 1))
    return text[:count].encode()


class MemBufDemo(Case):
    capacity = None  # of the ring that the server grants

    def once(self, keys, *, query=False, plain=False, method="GET", **variables):
        named = {"QUERY_STRING": keys} if query else {f"WWW_KEY_{n}": key for n, key in enumerate(keys.split("+"), 1)}
        script = self.start("membufdemo", persistent=False, plain=plain, variables=named | {"REQUEST_METHOD": method} | variables)
        script.ring_capacity = self.capacity
        response = script.response()
        return response, script.wait()

    def test_both_ways_send_the_same_bytes_for_the_same_record_size(self):
        sizes = ((None, 65536), (None, 1000), (8192, 1000), (8192, 8192), (8192, 60000), (12288, 8193), (1 << 20, 32))
        for self.capacity, record in sizes:
            with self.subTest(ring=self.capacity, record=record):
                expected = pattern(1 << 20, record)
                if record > 100:  # one write per 32 bytes would take too long on the mailbox
                    mailbox, ended = self.once(f"1+m+{record}")
                    self.assertEqual(ended, (0, ""))
                    self.assertTrue(mailbox.body == expected)
                    self.assertEqual(mailbox.field("X-mbuf"), "NULL 0")
                buffer, ended = self.once(f"1+b+{record}")
                self.assertEqual(ended, (0, ""))
                self.assertTrue(buffer.body == expected)
                self.assertEqual(buffer.field("X-mbuf"), f"/dev/fd/4 {self.capacity or 1 << 20}")
                self.assertEqual(buffer.field("X-mrs"), str(record))

    def test_a_record_larger_than_the_ring_is_one_block(self):
        self.capacity = 8192
        response, _ = self.once("1+b+300000")
        self.assertTrue(response.body == pattern(1 << 20, 300000))

    def test_the_head_is_as_documented(self):
        response, _ = self.once("1")
        self.assertEqual(response.head, b"Content-Type: application/octet-stream\r\nContent-Length: 1048576\r\nX-mrs: 65536\r\nX-mbuf: NULL 0")

    def test_a_head_request_gets_no_body(self):
        for keys in ("3", "3+b"):
            response, ended = self.once(keys, method="HEAD")
            self.assertEqual((response.field("Content-Length"), response.body, ended), ("3145728", b"", (0, "")))

    def test_defaults(self):
        for keys in ("", "0", "many", "-", "0+x+0+0", "+++"):
            response, _ = self.once(keys, method="HEAD")
            self.assertEqual((response.field("Content-Length"), response.field("X-mrs"), response.field("X-mbuf")), (str(100 << 20), "65536", "NULL 0"))
        response, _ = self.once("1", method="HEAD", WWW_GATEWAY_MRS="0")
        self.assertEqual(response.field("X-mrs"), "8192")

    def test_units_and_sizes(self):
        for keys, record in (("1+m+32k", 32768), ("1+b+1M", 1 << 20), ("1+b+1G", 1 << 30), ("1+m+32", 32)):
            self.assertEqual(self.once(keys, method="HEAD")[0].field("X-mrs"), str(record))
        response, _ = self.once("16777216+b", method="HEAD")
        self.assertEqual(response.field("Content-Length"), str(1 << 44))
        self.assertIn("BUFFER-BEGIN: 3072k ring", self.once("1+b+0+3", method="HEAD")[0].callouts)

    def test_an_invalid_keyword_is_400_and_named(self):
        for keys, key in (("-1", 1), ("16777217", 1), ("99999999999999999999999", 1), ("5x", 1), ("1+m+-5", 3), ("1+m+65537", 3), ("1+m+1M", 3),
                          ("1+m+3q", 3), ("1+b+2G", 3), ("1+b+9999999999999999999k", 3), ("1+b+0+-2", 4), ("1+b+0+1048577", 4), ("1+b+0+1k", 4)):
            with self.subTest(keys):
                response, ended = self.once(keys)
                self.assertEqual((response.field("Status"), ended), ("400", (0, "")))
                self.assertIn(f"Key {key} ".encode(), response.body)

    def test_a_refused_buffer_is_500_with_a_status(self):
        script = self.start("membufdemo", persistent=False, variables={"WWW_KEY_1": "1", "WWW_KEY_2": "b"})
        script.answers["BUFFER-BEGIN"] = "413 too large"
        response = script.response()
        self.assertEqual(response.field("Status"), "500")
        self.assertRegex(response.body.decode(), r"^MemBufLib: .*\(%X0000001C\)\n$")
        self.assertEqual(script.wait(), (28, ""))

    def test_a_route_without_a_buffer_is_named_by_its_status(self):
        script = self.start("membufdemo", persistent=False, variables={"WWW_KEY_1": "1", "WWW_KEY_2": "b"})
        script.answers["BUFFER-BEGIN"] = "403 the route allows none"
        self.assertRegex(script.response().body.decode(), r"\(%X00000024\)\n$")
        self.assertEqual(script.wait(), (36, ""))

    def test_a_refused_buffer_does_not_end_a_kept_process(self):
        script = self.start("membufdemo")
        script.answers["BUFFER-BEGIN"] = "503 no memory"
        self.assertIn(b"%X00000124", script.ask({"WWW_KEY_1": "1", "WWW_KEY_2": "b"}).body)
        del script.answers["BUFFER-BEGIN"]
        for keys in ({"WWW_KEY_2": "b"}, {}, {"WWW_KEY_2": "b", "WWW_KEY_3": "7777"}, {"WWW_KEY_3": "9000"}, {"WWW_KEY_3": "1000"}):
            response = script.ask({"WWW_KEY_1": "1"} | keys)
            self.assertTrue(response.body == pattern(1 << 20, int(keys.get("WWW_KEY_3", 65536))))
        self.assertEqual(script.leave(), (0, ""))

    def test_a_disconnect_is_exit_44(self):
        script = self.start("membufdemo", persistent=False, variables={"WWW_KEY_1": "1000", "WWW_KEY_2": "b"})
        script.on_ring = lambda response: script.ring.close()
        script.response()
        self.assertEqual(script.wait(), (44, ""))
        script = self.start("membufdemo", persistent=False, variables={"WWW_KEY_1": "1000"})
        script.hang_up()
        self.assertEqual(script.wait(), (44, ""))

    def test_it_runs_under_any_cgi_server(self):
        response, ended = self.once("1+m+5000", query=True, plain=True)
        self.assertTrue(response.body == pattern(1 << 20, 5000))
        response, ended = self.once("1+b", query=True, plain=True)
        self.assertEqual((response.field("Status"), ended), ("500", (44, "")))
        response, _ = self.once("megabytes=1", query=True, plain=True, method="HEAD")
        self.assertEqual((response.field("Content-Length"), response.field("X-mrs")), (str(100 << 20), "8192"))


class CgiPlusTest(Case):
    def test_the_body_has_the_requested_length(self):
        script = self.start("cgiplustest")
        for use, count in enumerate((0, 1, 79, 80, 81, 16384, 65536, 70000, 1_000_000), 1):
            response = script.ask({"WWW_KEY_1": str(count)})
            self.assertEqual(response.head, f"Content-Type: text/plain\r\nContent-Length: {count}\r\nX-usage: {use}".encode())
            self.assertTrue(response.body == lines(count))

    def test_head_body_and_sentinel_are_sent_in_one_write(self):
        script = self.start("cgiplustest")
        script.ask({})  # and the callout for struct mode
        before = script.writes()
        for count in ("0", "1", "16384", "65536", "65536", "0", "16384", "65536"):
            script.ask({"WWW_KEY_1": count})
        self.assertLessEqual(script.writes() - before, 8 + 1)

    def test_it_runs_as_cgi(self):
        script = self.start("cgiplustest", persistent=False, plain=True, variables={"QUERY_STRING": "200"})
        response = script.response()
        self.assertEqual((response.body, response.field("X-usage")), (lines(200), "1"))

    def test_no_number_is_no_body_and_a_bad_one_is_400(self):
        script = self.start("cgiplustest")
        self.assertEqual(script.ask({}).body, b"")
        for bad in ("-1", "12x", "1073741825"):
            self.assertEqual(script.ask({"WWW_KEY_1": bad}).field("Status"), "400")


class CgiPlusCallout(Case):
    def test_the_page_shows_every_answer_and_the_use_count(self):
        for options in ({}, {"records": True}):
            script = self.start("cgipluscallout", **options)
            for use in (1, 2):
                response = script.ask({"PATH_INFO": "/a&b"})
                page = response.body.decode()
                asked = [c for c in response.callouts if "CGIPLUS" not in c]
                self.assertEqual(asked, ["NOOP:", "MAP-PATH: /a&b", "MAP-PATH: /a&b", "MAP-FILE: /srv/a&b", "LIFETIME: 10m", "HTTP-STATUS:",
                                         "FLY-TO: the moon", "!NOOP:", "#NOOP:", "NOOP:"])
                self.assertIn(f"<strong>{use}</strong>", page)
                self.assertIn('<b class="good">200</b> /srv/a&amp;b', page)
                self.assertIn('<b class="bad">400</b> unknown callout', page)
                self.assertTrue(page.endswith("</html>\n"))

    def test_under_another_server_it_reports_missing_callouts(self):
        script = self.start("cgipluscallout", persistent=False, plain=True)
        self.assertIn(b"no answer: this server makes no callouts", script.response().body)


class PrintEnv(Case):
    def test_variables_are_sorted_and_complete(self):
        script = self.start("printenv")
        response = script.ask({"B": "2", "A": "<1>", "C": ""})
        self.assertEqual(response.head, b"Content-Type: text/plain")
        expected = {"A": "<1>", "B": "2", "C": ""} | server.gateway_variables()
        self.assertEqual(response.body.decode().splitlines(), sorted(f"{name}={value}" for name, value in expected.items()))

    def test_as_cgi_it_prints_the_environment(self):
        script = self.start("printenv", persistent=False, plain=True, variables={"A": "1"})
        self.assertTrue(script.response().body.startswith(b"A=1\nPATH="))


if __name__ == "__main__":
    unittest.main()
