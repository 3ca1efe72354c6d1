"""The fake driver in Pods of a cluster: its image, its deployment, and a target with it."""
