"""The label of the objects that drahealth makes."""

BELONGS = {"app.kubernetes.io/part-of": "drahealth"}
"""The label of our namespaces, and of our objects without a namespace."""
