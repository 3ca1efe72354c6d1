"""The control surface of fake drivers and device plugins: its calls, their wire format, client and server."""
