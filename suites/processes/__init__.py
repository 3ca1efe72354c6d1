"""Processes that leave nothing behind, and namespaces of the machine for them."""
