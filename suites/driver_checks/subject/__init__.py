"""The driver under test: its process, its directories, and its access to an API server."""
