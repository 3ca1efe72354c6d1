"""What is done to a device plugin. Each experiment writes events, and decides nothing."""
