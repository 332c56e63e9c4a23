"""Behaviours: scripts that fail, end or hang, and clients that leave."""

from testing import is_alive, request_head, wait_until

from .cells import equal
from .registry import APPLICATION_RETURNS, behaviour


@behaviour("death before the head")
def die_before(cell):
    """A script process that is killed before it has replied: 502. The next request is right."""
    equal(cell.get("die-before").status, 502, "status")
    cell.next_is_right()


@behaviour("death in the body")
def die_within(cell):
    """A script process that is killed in the middle of its reply: the client sees that the response is truncated. The next request is right."""
    assert not half(cell, "die-within"), "the response is complete"
    cell.next_is_right()


def half(cell, action):
    """The client gets the first half of a reply, then the script goes on, and fails. Whether the response is complete nevertheless."""
    with cell.connect() as client:
        client.get(cell.path(action))
        equal(client.head().status, 200, "status")
        client.read_body_until(b"half\n")
        cell.column.gate.release()
        rest = client.read_chunk()
        assert not rest, f"more of the body: {rest!r}"
        return rest is not None


@behaviour("exit before the head", APPLICATION_RETURNS)
def exit_before(cell):
    """`exit(3)` without a reply: 502. The next request is right."""
    equal(cell.get("exit-before").status, 502, "status")
    cell.next_is_right()


@behaviour("exit in the middle", APPLICATION_RETURNS)
def exit_within(cell):
    """`exit(0)` in the middle of a script: what has been written is the reply, and it is complete. Under CGIplus the end sentinel is
    missing, so the response is truncated. The next request is right."""
    got = cell.get("exit-within")
    equal((got.status, got.text, got.is_complete), (200, "before\n", cell.mode != "cgiplus"), "the response")
    cell.next_is_right()


@behaviour("error before the head")
def error_before(cell):
    """An uncaught error (an exception, `die`) before the head: 502, or 500 for PSGI and where php-cgi answers itself; the error's text is
    in the log, and not in the response. An engine names it in the line about the request. The next request is right."""
    start = cell.server.log_position()
    got = cell.get(f"error-before?{cell.mark}")
    equal(got.status, cell.column.error_status, "status")
    assert cell.mark not in got.text, "visitors see the text of the error"
    cell.server.log_line(cell.mark, start)
    if cell.mode in ("rte", "fork"):
        line = cell.server.log_line(f"{cell.path('error-before')}?{cell.mark}: ", start)
        assert "failed: " in line.partition(cell.mark)[2] and line.count(cell.mark) == 2, line
    cell.next_is_right()


@behaviour("error in the body")
def error_within(cell):
    """The same after some of the body has been sent: the client sees that the response is truncated. Under CGI it is complete, because a
    process may have replied well, whatever its exit status; the log says it."""
    start = cell.server.log_position()
    is_complete = half(cell, f"error-within?{cell.mark}")
    equal(is_complete, cell.mode == "cgi", "complete")
    cell.server.log_line(cell.mark, start)
    cell.next_is_right()


@behaviour("changed script")
def changed(cell):
    """When the file of a script is replaced, the next processes or requests use the new one, within two seconds or so."""
    server, column = cell.server, cell.column
    with open(server.path(column.directory, column.file), "rb") as file:
        content = file.read()
    name = column.file if column.is_application else f"changed-{column.name}-{column.file}"
    path = column.path("status?200", "-timeout").replace(column.file, name)
    for version in (b"a document", b"A DOCUMENT", b"a document"):
        server.write(f"{column.directory}/{name}", content.replace(b"a document", version), 0o755)
        assert wait_until(lambda: server.get(path).body == version + b"\n"), f"not {version}: {server.get(path)}"


@behaviour("endless loop")
def endless(cell):
    """A script that does not reply within `reply_timeout`: 504 for this request only."""
    equal(cell.get("endless", route="-timeout").status, 504, "status")
    equal(cell.get("process", route="-timeout").status, 200, "the next request")


@behaviour("standard error")
def errors(cell):
    """A line on standard error is in the log, with the script and the pid."""
    start = cell.server.log_position()
    pid = cell.document(f"errors?{cell.mark}")
    line = cell.server.log_line(cell.mark, start)
    assert cell.column.file in line and " id=" in line, line
    assert pid in line or cell.mode == "fork", f"no pid {pid}: {line}"


@behaviour("client gone while the script writes")
def bulk(cell):
    """A client that leaves in the middle of an endless reply: the script learns it by a failed write, or is stopped. The next request is
    right, and no process is left behind."""
    leave(cell, "bulk")


@behaviour("client gone while the script is silent")
def silent(cell):
    """The same while the script waits for something else: it is stopped after `client_grace`."""
    leave(cell, "silent")


@behaviour("client gone within its body")
def upload_cut(cell):
    """A client that leaves in the middle of its request body: the next request is right. The process of an engine stays, except that of a script
    in Perl, which could not tell such a body from a whole one."""
    stays = cell.mode == "rte" and (cell.column.is_application or cell.language != "Perl")
    before = cell.next_is_right()
    for action in ("echo", "to-and-fro"):
        with cell.connect() as client:
            client.send(request_head("PUT", cell.path(action), {"Content-Type": "application/octet-stream"}, 131072) + b"x" * 65536)
            if action == "to-and-fro":  # the script has read the first half, and waits for the other
                equal(client.head().status, 200, "status")
                client.read_body_until(b"part 1: 65536 bytes\n")
            client.reset()
        after = cell.next_is_right()
        if stays:
            equal(after, before, "the process")


def leave(cell, action):
    with cell.connect() as client:
        client.get(cell.path(action))
        equal(client.head().status, 200, "status")
        pid = int(client.read_body_until(b"\n").split(b"\n")[0])
        assert is_alive(pid), "no such process"
        client.reset()
    following = cell.next_is_right()
    if following != pid:
        cell.wait_gone(pid)
    own = f"/{cell.column.file}"
    # At most the process that serves this column, with the child that it may have for a request.
    assert wait_until(lambda: len(of_column(cell)) <= (1 if cell.is_persistent else 0)), (own, of_column(cell))


def of_column(cell):
    """The script processes of this column, by the directory of its events, which is in their environment."""
    mark = f"PROBE_DIR={cell.server.path('events', cell.column.name)}\0".encode()
    found = []
    for process in cell.server.processes():
        try:
            with open(f"/proc/{process.pid}/environ", "rb") as file:
                if mark in file.read() + b"\0":
                    found.append(process)
        except OSError:
            pass
    return found
