#!/usr/bin/env python3
"""form: shows a form, and what was sent with it: two fields and any number of files."""

import sluice

FORM = """<!DOCTYPE html>
<title>Form</title>
<form method="post" enctype="multipart/form-data">
<p><label>Name <input name="name"></label>
<p><label>Note <textarea name="note"></textarea></label>
<p><label>Files <input type="file" name="file" multiple></label>
<p><button>Send</button>
</form>
"""


def show_answers():
    names = sluice.parameter_names()  # reads the form: FormError if that is not possible
    sluice.write("<!DOCTYPE html>\n<title>Sent</title>\n<dl>\n")
    for name in names:
        for value in sluice.parameters(name):
            sluice.write(f"<dt>{sluice.escape_html(name)}<dd>{sluice.escape_html(value)}\n")
    for upload in sluice.uploads("file"):
        with upload.open() as file:
            start = file.read(60).partition(b"\n")[0].decode("utf-8", "replace")
        sluice.write(f"<dt>{sluice.escape_html(upload.filename)}<dd>{upload.size} bytes of {sluice.escape_html(upload.type)}")
        sluice.write(f", begins with <code>{sluice.escape_html(start)}</code>\n")
    sluice.write("</dl>\n")


while sluice.accept():
    sluice.upload_limit(100 << 20)
    try:
        if sluice.variable("REQUEST_METHOD") == "POST":
            show_answers()
        else:
            sluice.write(FORM)
    except sluice.FormError as error:
        sluice.fail(error.status, str(error))
