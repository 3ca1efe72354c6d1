"""The kind target: a cluster in containers, with the fake driver in a pod of each node."""
