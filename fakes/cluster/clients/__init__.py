"""Clients of an API server, in memory or real."""
