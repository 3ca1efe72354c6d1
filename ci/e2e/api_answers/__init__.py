"""Requests to the API server in memory and to a real one, and the comparison of their answers."""
