"""Soak: random timelines on one target for a long time, with verdicts on every round and on leaks."""
