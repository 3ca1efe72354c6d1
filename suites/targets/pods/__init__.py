"""Fake drivers in pods of a cluster: their image, their deployment, and the connection to them."""
