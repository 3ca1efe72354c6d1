"""The objects that scenarios use: a node, its hardware, its workload, and the history of all events."""
