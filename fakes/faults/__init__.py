"""Faults of devices: catalogues of faults, and policies that map them to health. `catalogue` reads both."""
