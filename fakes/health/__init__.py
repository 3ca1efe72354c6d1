"""What health streams say: the table of devices, and its way to each stream with all that can be wrong on it."""
