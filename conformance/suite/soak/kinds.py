"""The kinds of requests of the soak and chaos tests, and what the response to each must be. Everything random comes from `rng`."""

import hashlib
import random

from . import server as soak_server

BODIES = [random.Random(seed).randbytes(size) for seed, size in enumerate((1, 1000, 70_000, 2_000_000))]
DIGESTS = {body: (hashlib.sha256(body).hexdigest() + "\n").encode() for body in BODIES}
BULK = b"".join(bytes([n]) * 65536 for n in range(48))
BLOCKS = b"".join(bytes([ord("a") + number % 26]) * 65536 for number in range(40))
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"


class Kind:
    """A kind of request, and what its response must be: `is_right(body)` for a complete one with this status."""

    def __init__(self, name, target, is_right, body=None, status=200, headers=""):
        self.name, self.target, self.is_right, self.status, self.headers = name, target, is_right, status, headers
        self.body, self.method = body, "GET" if body is None else "POST"


def whole(expected):
    return lambda got: got == expected


def never(_):
    """For responses that must not be complete."""
    return False


def no_error_text(got):
    return b"an error" not in got


def program_kinds(rng):
    """Files, and the C programs of the SDK. `{}` is where the marker of the request goes."""
    body = rng.choice(BODIES)
    size = rng.choice((0, 100, 16384, 65536, 200_000))
    return [
        Kind("file", "/file.bin?{}", whole(soak_server.FILE)),
        Kind("cgi", f"/cgi-bin/cgiplustest?{size}+{{}}", lambda got: len(got) == size),
        Kind("cgiplus", f"/cgiplus-bin/cgiplustest?{size}+{{}}", lambda got: len(got) == size),
        Kind("digest", "/cgiplus-bin/digest?{}", whole(DIGESTS[body]), body),
        Kind("record", "/record-bin/digest?{}", whole(DIGESTS[body]), body),
        Kind("mailbox", "/cgi-bin/membufdemo?3+m+65536+1+{}", whole(BULK)),
        Kind("buffer", "/cgi-bin/membufdemo?3+b+65536+1+{}", whole(BULK)),
        Kind("buffer+", "/cgiplus-bin/membufdemo?3+b+65536+1+{}", whole(BULK)),
    ]


def column_kinds(rng, column, marker):
    """The requests to a column of the conformance table."""
    body = rng.choice(BODIES)
    names = "X-Names: QUERY_STRING HTTP_COOKIE CONTENT_LENGTH\r\n"
    name = column.name

    def at(action, query=""):
        return column.path(f"{action}/{marker}{query}")

    def is_clean(got):
        # The globals of an application are its own.
        return (column.is_application or b"by another" not in got) and b"QUERY_STRING=clean\n" in got

    kinds = [
        Kind(f"{name} variables", at("variables", "?" + marker), whole(absent(marker)), headers=names),
        Kind(f"{name} echo", at("echo"), whole(body), body),
        Kind(f"{name} leave", at("leave"), whole(b"left\n"), b"left=1&more=2", 404, "Cookie: left=1\r\n" + FORM),
        Kind(f"{name} state", at("look", "?clean"), is_clean),
        Kind(f"{name} status", at("status", "?410"), whole(b"a document\n"), status=410),
        Kind(f"{name} error", at("error-before"), no_error_text, status=column.error_status),
        Kind(f"{name} death", at("die-before"), lambda got: True, status=502),
        Kind(f"{name} death within", at("die-within"), never),
    ]
    if not column.is_application:
        # Under CGIplus the end sentinel is missing.
        kinds.append(Kind(f"{name} exit", at("exit-within"), whole(b"before\n") if column.mode != "cgiplus" else never))
    if column.kind == "library":
        kinds += [
            Kind(f"{name} form", at("form", "?a=1&b=x"), whole(b"a: 1|2\nb: x\nc: \n1 absent\n"), b"a=2", headers=FORM),
            Kind(f"{name} buffer", at("buffer", "?40"), whole(BLOCKS)),
        ]
    return kinds


def absent(marker):
    return f"QUERY_STRING={marker}\nHTTP_COOKIE is absent\nCONTENT_LENGTH is absent\n".encode()
