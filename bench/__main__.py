"""`python3 bench`: runs the benchmark. All of it is in the package sluicebench, beside this file."""

from sluicebench.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
