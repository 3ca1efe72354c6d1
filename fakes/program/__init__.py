"""Shared parts of the commands: errors with exit codes, JSON Lines, the live view, log lines, metrics."""
