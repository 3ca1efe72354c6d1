"""The devices of a fake: as values, read from a file, checked, and named for container runtimes."""
