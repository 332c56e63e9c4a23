"""The soak test: everything at once, while scripts are killed and renewed. `conformance/soak` runs it."""
