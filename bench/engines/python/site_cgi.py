#!/usr/bin/env python3
"""The Flask application as a CGI script, with the handler of the standard library."""
from wsgiref.handlers import CGIHandler

from site_flask import app

CGIHandler().run(app)
