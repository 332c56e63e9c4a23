"""Coding of text for HTML and URLs."""

from __future__ import annotations

import html
import urllib.parse


def escape_html(text: object) -> str:
    """The text with `& < > " '` as character references, for HTML text and attribute values."""
    return html.escape(str(text))


def url_encode(text: object) -> str:
    """The text percent-encoded (UTF-8) for a part of a path, a name or a value of a query: only letters, digits and `-._~` stay."""
    return urllib.parse.quote(text if isinstance(text, bytes) else str(text), safe="")


def url_decode(text: str) -> str:
    """The decoded name or value of a query: `+` is a blank, `%C3%BC` is ü."""
    return urllib.parse.unquote_plus(text)
