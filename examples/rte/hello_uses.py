"""A module of hello.py. It is imported once in each process, so its count stays as long as the process."""

count = 0

if __name__ == "__main__":
    print("Content-Type: text/plain; charset=utf-8\n\nThis is a module of hello.py.")
