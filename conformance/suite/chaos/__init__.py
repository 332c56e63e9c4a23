"""The chaos test: faults of every kind while clients of every kind are served. `conformance/chaos` runs it."""
