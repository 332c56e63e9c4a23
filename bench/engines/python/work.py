"""The work of every form of the application: script, CGIplus, WSGI. Each form only reads the request and sends the reply."""

LINE = b"".join(bytes([33 + at % 90]) for at in range(63)) + b"\n"
BLOCK = 65536


def text(size):
    return (LINE * (size // len(LINE) + 1))[:size]


def form(body):
    """One line for each field: its name, and the length of its value in letters."""
    from urllib.parse import parse_qsl  # the other requests do not need it

    fields = parse_qsl(body.decode(), keep_blank_values=True)
    return "".join(f"{name}: {len(value)}\n" for name, value in fields).encode()


def upload(read, length):
    """The number of bytes of the body, and the last eight of them. `read` as in `wsgi.input`."""
    count, last = 0, b""
    while count < length:
        block = read(min(BLOCK, length - count))
        if not block:
            break
        count += len(block)
        last = (last + block)[-8:]
    return b"%d %s\n" % (count, last)


def reply(method, query, content_type, length, read):
    """The body of the reply to a request."""
    if method != "POST":
        return text(int(query or 0))
    if content_type == "application/x-www-form-urlencoded":
        return form(read(length))
    return upload(read, length)
