"""What the long-running commands share: errors with exit codes, JSON Lines, the live frame, log lines, metrics."""
