#!/usr/bin/env python3
"""A script with heavy imports: what a program for reports may need. It uses a little of it."""
import argparse  # noqa: F401
import asyncio  # noqa: F401
import concurrent.futures  # noqa: F401
import csv  # noqa: F401
import decimal
import email.message  # noqa: F401
import http.client  # noqa: F401
import json
import logging.handlers  # noqa: F401
import sqlite3  # noqa: F401
import ssl  # noqa: F401
import tempfile  # noqa: F401
import urllib.request  # noqa: F401
import xml.dom.minidom  # noqa: F401
import xmlrpc.client  # noqa: F401
import zipfile  # noqa: F401

body = json.dumps({"total": str(decimal.Decimal("19.90") * 3)})
print(f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}", end="")
