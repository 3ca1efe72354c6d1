"""Nodes and kubelets for other people's tests: async context managers that leave nothing behind."""
