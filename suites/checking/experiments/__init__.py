"""The experiments: what `drahealth check` does to a driver."""
