"""Shared parts of the commands: errors with exit codes, files, JSON Lines, the live view, log lines, metrics."""
