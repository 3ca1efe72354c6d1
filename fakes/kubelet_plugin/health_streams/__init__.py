"""Health streams: the table of device health, the reports made from it, and stream faults."""
