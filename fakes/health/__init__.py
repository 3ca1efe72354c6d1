"""Health streams: the table of devices, and the way of its reports to each stream, with stream faults."""
