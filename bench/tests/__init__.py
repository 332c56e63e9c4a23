"""Tests of the benchmark. No peer, no network, no waiting: what is measured is not tested here, how it is measured is."""
