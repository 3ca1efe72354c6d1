"""Nodes that stay: `drahealth up`, and the commands for a running node."""
