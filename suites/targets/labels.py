"""What tells the objects of ours in an API server from others'."""

BELONGS = {"app.kubernetes.io/part-of": "drahealth"}
"""The label of everything that we make and that is in no namespace of ours, and of those namespaces."""
