"""Pytest suites, what they run on, and the `drahealth` command."""
