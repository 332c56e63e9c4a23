"""The application as a WSGI application; below /app it is the one of Flask."""
import work
from site_flask import app as flask_app


def application(environ, start_response):
    if environ["PATH_INFO"].startswith("/app/"):
        return flask_app(environ, start_response)
    variable = environ.get
    body = work.reply(
        environ["REQUEST_METHOD"], variable("QUERY_STRING"), variable("CONTENT_TYPE"), int(variable("CONTENT_LENGTH") or 0),
        environ["wsgi.input"].read,
    )  # fmt: skip
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
