"""The sandbox of a driver: namespaces, private directories, and a network without outside."""
