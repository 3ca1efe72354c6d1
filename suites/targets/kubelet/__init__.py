"""The kubelet target: a real kubelet and control plane on this machine, with a fake container runtime."""
