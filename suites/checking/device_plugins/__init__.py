"""Device plugins as subjects of a check: their kubelet, experiments, requirements, checks and mutants."""
