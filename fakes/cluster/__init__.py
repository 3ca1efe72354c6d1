"""Fake surroundings of a kubelet: an API server in memory, scheduling, a pod worker, containers, and API clients."""
