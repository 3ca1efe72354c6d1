"""What users of kubelets see of the reports of a driver."""
