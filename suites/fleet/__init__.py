"""A fleet: hollow nodes with fake devices, whose objects one process writes, without kubelets and without gRPC."""
