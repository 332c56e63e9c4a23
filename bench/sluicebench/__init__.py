"""Sluice and its peers, measured side by side in one run. bench/README.md says what, how, and how to read it."""
