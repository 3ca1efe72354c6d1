"""A real kubelet and a real control plane on this machine, with no container engine and no root."""
