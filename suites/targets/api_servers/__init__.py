"""API servers for the reference and for driver checks: in memory, or a real kube-apiserver with etcd."""
