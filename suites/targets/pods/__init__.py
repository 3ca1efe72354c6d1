"""Fake drivers in the pods of a cluster: their image, what deploys them, and the way to them."""
