"""The conformance suite: the same behaviours in every language and mode. `conformance/run` runs it."""
