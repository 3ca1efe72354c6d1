"""Device plugins as subjects of a check: their kubelet, experiments, checks and mutants."""
