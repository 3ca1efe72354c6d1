"""The commands `drahealth certify`, `verify` and `diff`."""
