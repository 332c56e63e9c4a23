"""Output regions under the real server: clients that are slow or leave, processes that end, and scripts that name wrong numbers.

Not here: the regions of the library's own replies (crates/sluice/tests/scripts/memory_buffer/regions.rs)."""

import gzip
import os
import signal
import socket
import subprocess
import sys
import unittest

import server

sys.path.insert(0, os.path.join(server.HERE, "../.."))
import testing  # noqa: E402

REGION_BYTES = 524288

# A CGIplus script. QUERY_STRING: "m", "r" or "p" (the body by the mailbox, by the region at once, or in parts of 64 KiB of the region, which is
# filled again and again), the length of the body, then words:
#   head=LINE  a further field (_ for a blank)    inside  the head is in the region, too    split  the first half of the body is in the mailbox
#   claim=N    BUFFER-REGION names N bytes        scribble  overwrites both regions         again=N  a second callout    exit  ends after it
#   one        all parts are in the same place of the region
#   twice      each BUFFER-FREE is followed by another one while the first may wait
#   die=N      the script is killed when it has written N bytes of the parts
SCRIPT = r'''#!/usr/bin/env -S python3 -SE
import mmap, os, sys
EOF, ESC, EOT = (os.environb[b"CGIPLUS" + name] for name in (b"EOF", b"ESC", b"EOT"))
requests = os.fdopen(3, "rb")
regions, base = {}, None

def put(data):
    while data:
        data = data[os.write(1, data):]

while line := requests.readline():
    if line != b"!\n":
        continue
    variables = {}
    while (text := requests.readline()) != b"\n":
        name, _, value = text[:-1].decode().partition("=")
        variables[name] = value
    way, length, *words = variables["QUERY_STRING"].split("+")
    announced = variables.get("WWW_GATEWAY_REGION")
    if announced and announced not in regions:
        offset, size = map(int, announced.split())
        regions[announced] = mmap.mmap(4, size, offset=offset)
    options = dict(word.partition("=")[::2] for word in words)
    head = "Content-Type: text/plain\n" + "".join(word[5:].replace("_", " ") + "\n" for word in words if word.startswith("head="))
    if "head=X" not in variables["QUERY_STRING"] and "show" in options:
        head += f"X-Region: {announced or 'none'}\nX-Pid: {os.getpid()}\n"
    head, body = head.encode() + b"\n", "".join([f"{line:015}\n" for line in range(int(length) // 16 + 1)]).encode()[:int(length)]
    if "scribble" in options:
        for memory in regions.values():
            memory[:] = b"!" * len(memory)
    if way == "r" and (announced or "claim" in options):
        before, inside = head, body
        if "inside" in options:
            before, inside = b"", head + body
        elif "split" in options:
            before, inside = head + body[:len(body) // 2], body[len(body) // 2:]
        if announced:
            regions[announced][:len(inside)] = inside
        put(before + b"".join(b"%s\n!BUFFER-REGION: %s\n%s\n" % (ESC, count.replace("_", " ").encode(), EOT)
            for count in [options.get("claim", str(len(inside)))] + ([options["again"]] if "again" in options else [])) + EOF + b"\n")
    elif way == "p" and announced:
        memory, at, half, is_full = regions[announced], 0, len(regions[announced]) // 2, False
        if "one" in options:
            half = 32768
        put(head)
        for start in range(0, len(body), 65536):
            part = body[start:start + 65536]
            if at == 2 * half:
                at, is_full = 0, True
            if is_full and at % half == 0:
                wanted = max(half, 65536)
                free = b"%s\nBUFFER-FREE: %d %d\n%s\n" % (ESC, wanted, at, EOT)
                put(free)
                if "twice" in options:
                    put(free)
                answer = requests.readline()
                if "twice" in options and (other := requests.readline()) != answer:
                    # The first one waited.
                    if not answer.startswith(b"400 BUFFER-FREE "):
                        sys.exit(f"not refused: {answer}")
                    answer = other
                if answer != b"200 %d %d\n" % (wanted, at):
                    sys.exit(f"another answer: {answer}")
            if start == int(options.get("die", -1)):
                os.kill(os.getpid(), 9)
            memory[at:at + len(part)] = part
            put(b"%s\n!BUFFER-REGION: %d %d\n%s\n" % (ESC, len(part), at, EOT))
            at += len(part)
        put(EOF + b"\n")
    else:
        put(head + body + EOF + b"\n")
    if "exit" in options:
        sys.exit(0)
'''


def expected(length):
    return "".join([f"{line:015}\n" for line in range(length // 16 + 1)]).encode()[:length]


class Stream:
    """One request of a client of HTTP/2 whose window is closed until `open`."""

    def __init__(self, address, path):
        self.socket = socket.create_connection(address, testing.DEADLINE)
        self._buffer = b""
        literals = ((2, b"GET"), (4, path.encode()), (6, b"http"), (1, b"test"))  # RFC 7541 section 6.2.2, names by index
        block = b"".join(b"%c%c%s" % (index, len(value), value) for index, value in literals)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"\0\4\0\0\0\0") + frame(1, 5, 1, block))
        while self.frame()[0] != 1:  # the head of the response
            pass

    def frame(self):
        while len(self._buffer) < 9 or len(self._buffer) < 9 + int.from_bytes(self._buffer[:3], "big"):
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self._buffer += data
        end = 9 + int.from_bytes(self._buffer[:3], "big")
        kind, flags, payload, self._buffer = self._buffer[3], self._buffer[4], self._buffer[9:end], self._buffer[end:]
        return kind, flags, payload

    def open(self):
        """Opens the windows of the connection and of the stream: the body, and whether it is complete."""
        self.socket.sendall(frame(8, 0, 0, b"\1\0\0\0") + frame(8, 0, 1, b"\1\0\0\0"))
        body = b""
        while True:
            kind, flags, payload = self.frame()
            if kind == 0:
                body += payload
                if flags & 1:
                    return body, True
            elif kind == 3:  # RST_STREAM
                return body, False


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


class Parts(unittest.TestCase):
    def test_parts_halves_and_answers(self):
        done = subprocess.run([f"{server.BUILD}/tests/region"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


class Regions(testing.ServerCase):
    configuration = """
        [[listen]]
        address = "127.0.0.1:0"
        http2 = "on"
        [[site]]
        root = "htdocs"
          [[site.route]]
          path = "/plus"
          script = { file = "bin/reply", mode = "cgiplus", max = 1 }
          [[site.route]]
          path = "/packed"
          compress = true
          script = { file = "bin/reply", mode = "cgiplus", max = 1 }
    """
    files = {"bin/reply": SCRIPT}

    def ask(self, query, path="/plus", method="GET", headers=()):
        return self.server.request(method, f"{path}?{query}", headers)

    def announced(self):
        response = self.ask("m+0+show")
        self.assertEqual((response.status, response.is_complete), (200, True), response)
        return response.field("X-Region")

    # ---- The same response as by the mailbox ----

    def assert_same(self, query, method="GET", path="/plus", headers=(), ways="mrp"):
        """A body by the mailbox and by the region: the same response, and the same line of the access log."""
        shown, lines = [], []
        for way in ways:
            mark = f"{method} {path}?{way}+{query} "
            seen = sum(mark in line for line in self.server.access())
            response = self.ask(f"{way}+{query}", path, method, headers)
            # A reply that is complete before its head is sent gets its length, which depends on the time.
            left_out = {"date"} if "Content-Length" in query else {"date", "content-length", "transfer-encoding"}
            fields = [(name, value) for name, value in response.fields if name.lower() not in left_out]
            shown.append((response.status, response.is_complete, fields, response.body))
            line = self.server.access_lines(seen + 1, mark)[-1]
            lines.append(line.split('"', 1)[1].rpartition(" ")[0].replace(f"?{way}+", "?"))  # without time and id
        for way, one, line in zip(ways, shown, lines):
            self.assertTrue(one == shown[0], f"{way}+{query}: {shown[0][:3]} {one[:3]}")
            self.assertEqual(line, lines[0])
        return response

    def test_the_response_is_that_of_the_mailbox(self):
        for length in (0, 1, 16383, 16384, 16385, 65536, REGION_BYTES - 1, REGION_BYTES):
            for words in ("", "+split", f"+head=Content-Length:_{length}"):
                with self.subTest(length=length, words=words):
                    response = self.assert_same(f"{length}{words}")
                    self.assertTrue(response.body == expected(length))
        self.assert_same("65000+inside", ways="mr")
        for length in (REGION_BYTES + 1, 5_000_000):
            for words in ("", f"+head=Content-Length:_{length}"):
                self.assertTrue(self.assert_same(f"{length}{words}", ways="mp").body == expected(length))

    def test_heads_without_a_body(self):
        for words, method in (("", "HEAD"), ("+head=Content-Length:_65536", "HEAD"), ("+head=Status:_204", "GET"), ("+head=Status:_304", "GET")):
            with self.subTest(words, method=method):
                self.assertEqual(self.assert_same(f"65536{words}", method).body, b"")
                self.assertEqual(self.assert_same(f"2000000{words}", method, ways="mp").body, b"")
        self.assertTrue(self.ask("r+65536").body == expected(65536))

    def test_a_wrong_content_length(self):
        self.assertTrue(self.assert_same("65536+head=Content-Length:_20000").body == expected(20000))
        response = self.assert_same("65536+head=Content-Length:_70000")
        self.assertFalse(response.is_complete)
        self.assertTrue(self.assert_same("2000000+head=Content-Length:_1000000", ways="mp").body == expected(1_000_000))
        self.assertFalse(self.assert_same("2000000+head=Content-Length:_2000001", ways="mp").is_complete)
        self.assertTrue(self.ask("r+65536").body == expected(65536))

    def test_a_compressed_reply(self):
        for length, way in ((20000, "m"), (20000, "r"), (REGION_BYTES, "r"), (2_000_000, "m"), (2_000_000, "p")):
            with self.subTest(way, length=length):
                response = self.ask(f"{way}+{length}", "/packed", headers={"Accept-Encoding": "gzip"})
                self.assertEqual((response.status, response.is_complete, response.field("Content-Encoding")), (200, True, "gzip"))
                self.assertTrue(gzip.decompress(response.body) == expected(length))

    # ---- Clients ----

    def held(self, *words, body="r+65536"):
        """A client that has the head of a reply by the region, and not its body."""
        return Stream(self.server.address, "+".join((f"/plus?{body}", *words)))

    def test_slow_clients_do_not_keep_the_process(self):
        first = self.announced()
        one = self.held()
        second = self.announced()
        two = self.held()
        self.assertNotEqual(first, second)
        self.assertEqual(self.announced(), "none")
        self.assertTrue(self.ask("r+65536").body == expected(65536))
        for client in (two, one):
            self.assertTrue(client.open() == (expected(65536), True))
            client.socket.close()
        self.assertTrue(testing.wait_until(lambda: self.announced() == first))

    def test_a_client_that_leaves_frees_its_region(self):
        first = self.announced()
        clients = [self.held(), self.held()]
        self.assertEqual(self.announced(), "none")
        for client in clients:
            client.socket.close()
        self.assertTrue(testing.wait_until(lambda: self.announced() == first))
        self.assertTrue(self.ask("r+65536").body == expected(65536))

    def test_parts_are_not_filled_again_before_a_slow_client_has_them(self):
        for words in ((), ("one",), ("twice",)):
            client = self.held(*words, body="p+3000000")
            self.assertTrue(client.open() == (expected(3_000_000), True))
            client.socket.close()

    def test_a_script_that_waits_for_a_client_that_leaves_can_serve_again(self):
        pid = self.ask("m+0+show").field("X-Pid")
        self.held(body="p+3000000").socket.close()
        self.assertEqual(self.ask("m+0+show").field("X-Pid"), pid)
        self.assertTrue(self.ask("p+3000000").body == expected(3_000_000))

    def test_a_script_that_is_killed_between_parts_aborts_the_response(self):
        for bytes_before in (65536, 1048576):
            response = self.ask(f"p+3000000+die={bytes_before}")
            self.assertFalse(response.is_complete)
            self.assertTrue(expected(3_000_000).startswith(response.body))
            self.assertTrue(self.ask("p+3000000").body == expected(3_000_000))

    def test_the_end_of_the_process_does_not_change_what_is_being_sent(self):
        for end in ("exit", "kill", "reload"):
            with self.subTest(end):
                pid = int(self.ask("m+0+show").field("X-Pid"))
                client = self.held("exit") if end == "exit" else self.held()
                if end == "kill":
                    os.kill(pid, signal.SIGKILL)
                elif end == "reload":
                    position = self.server.log_position()
                    self.server.signal(signal.SIGHUP)
                    self.server.log_line("SIGHUP", position)
                if end != "reload":
                    self.assertTrue(testing.wait_until(lambda: pid not in [process.pid for process in self.server.processes()]))
                # Another process has other memory.
                self.assertTrue(self.ask("r+65536").body == expected(65536))
                self.assertTrue(client.open() == (expected(65536), True))
                client.socket.close()

    # ---- Attackers ----

    def test_bytes_that_change_while_they_are_sent_stay_in_their_response(self):
        self.ask("r+1")
        clients = [self.held(), self.held()]
        other = self.ask("r+70000+scribble")
        self.assertTrue((other.status, other.is_complete) == (200, True) and other.body == expected(70000))
        for client in clients:
            body, is_complete = client.open()
            self.assertTrue(is_complete)
            self.assertEqual(len(body), 65536)
            client.socket.close()
        self.assertTrue(self.ask("r+65536").body == expected(65536))

    def test_regions_that_were_not_announced(self):
        for words in (f"claim={REGION_BYTES + 1}", "claim=18446744073709551615", "claim=4+again=x", f"claim=4+again=1_{REGION_BYTES}"):
            with self.subTest(words):
                response = self.ask(f"r+65536+{words}")
                self.assertTrue(response.status == 502 or not response.is_complete, response)
                self.assertTrue(self.ask("r+65536").body == expected(65536))
        clients = [self.held(), self.held()]
        response = self.ask("r+65536+claim=16")  # both are being sent, and none is announced
        self.assertTrue(response.status == 502 or not response.is_complete, response)
        for client in clients:
            self.assertTrue(client.open() == (expected(65536), True))
            client.socket.close()


if __name__ == "__main__":
    unittest.main()
