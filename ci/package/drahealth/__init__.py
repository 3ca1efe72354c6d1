"""Conformance and end-to-end suite, with fake hardware, for the health of a Pod's devices (Kubernetes KEP-4680)."""
