"""The fake driver in Pods of a cluster: its image, its deployment, and a target with it."""

NAMESPACE = "drahealth"
"""The usual namespace of the fake driver."""
KUBELET_DIR = "/var/lib/kubelet"
"""The usual root directory of kubelets."""
