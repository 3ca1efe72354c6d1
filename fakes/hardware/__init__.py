"""Fake hardware: DRA drivers and device plugins whose devices can fail."""
