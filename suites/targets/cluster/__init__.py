"""The target cluster: any cluster that a kubeconfig reaches, with the fake driver in a Pod on each node."""
