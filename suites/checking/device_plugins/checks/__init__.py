"""The checks of device plugins: pure functions from evidence to findings."""
