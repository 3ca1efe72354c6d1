"""The reference target: manager and fakes in this process."""
