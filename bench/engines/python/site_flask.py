"""A small Flask application: a page from a template that inherits from another one."""
from flask import Flask, render_template, request

app = Flask(__name__)


@app.route("/app/list/<name>")
def show(name):
    count = request.args.get("n", 10, type=int)
    items = [{"number": at, "title": f"Item {at} <{name}>", "price": at * 19} for at in range(1, count + 1)]
    return render_template("list.html", name=name, items=items)
