"""A real kubelet and a real control plane on this machine, without a container engine and without root."""
