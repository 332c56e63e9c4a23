"""Instructions of each server for each request, beside those of Sluice that are committed. ../../instructions/README.md describes them."""
