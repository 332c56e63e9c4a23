-- hello: a CGI script that also runs under the engine, unchanged.
print("Content-Type: text/plain; charset=utf-8\n")
print("Hello, " .. (os.getenv("REMOTE_ADDR") or "nobody") .. ".")
