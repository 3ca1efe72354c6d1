"""The sandbox of a driver: namespaces, private directories, and a network with loopback only."""
