"""Containers that are scripts, and a container runtime (CRI) of them for a real kubelet."""
