"""Unit tests of the benchmark, without peers, network or waiting. They test the method, not the servers."""
