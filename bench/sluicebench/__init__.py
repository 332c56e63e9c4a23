"""Measures Sluice and its peers side by side in one run. bench/README.md describes the workloads, the method and the results."""
