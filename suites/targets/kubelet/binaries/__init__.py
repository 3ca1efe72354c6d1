"""The Kubernetes programs of the local targets: got once, checked, and kept in the user's cache."""
