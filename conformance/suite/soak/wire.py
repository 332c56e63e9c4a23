"""Requests and responses of HTTP/1 over asyncio streams, to the byte."""

import asyncio
import re


def write_body(writer, body, is_chunked):
    if not is_chunked:
        writer.write(body)
        return
    for at in range(0, len(body), 50_000):
        chunk = body[at : at + 50_000]
        writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    writer.write(b"0\r\n\r\n")


async def response(reader):
    """Status and body of a complete response, and whether the server keeps the connection; IncompleteReadError if it is truncated."""
    head = await read_head(reader)
    got = []
    await read_body(reader, head, got)
    return status_of(head), b"".join(got), is_kept(head)


async def read_head(reader):
    """The head of a final response, in lower case."""
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if status_of(head) not in (100, 103):
            return head


def status_of(head):
    return int(head.split()[1])


def is_kept(head):
    return "\r\nconnection: close\r\n" not in head


async def read_body(reader, head, got):
    """Appends the parts of a body to a list, also those of one that is truncated: that is an IncompleteReadError. ValueError if the body has no length."""
    length = re.search(r"\r\ncontent-length: (\d+)", head)
    if length:
        return await read_part(reader, int(length.group(1)), got)
    if "transfer-encoding: chunked" not in head:
        raise ValueError("a response without length")
    while True:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise asyncio.IncompleteReadError(line, None)
        size = int(line, 16)
        if size == 0:
            break
        await read_part(reader, size, got)
        await reader.readexactly(2)
    await reader.readexactly(2)


async def read_part(reader, size, got):
    try:
        got.append(await reader.readexactly(size))
    except asyncio.IncompleteReadError as error:
        got.append(error.partial)
        raise
