"""Namespaces of this machine: whether they are allowed, and mounts in them."""
