"""Fake surroundings of a kubelet: an API server in memory, scheduling, containers, and API clients."""
