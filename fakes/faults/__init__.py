"""What goes wrong with devices: catalogues of faults, and policies of what they mean. `catalogue` reads both."""
