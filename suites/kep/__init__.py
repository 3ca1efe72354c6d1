"""The scenarios of KEP-4680. They are the same for all targets."""
