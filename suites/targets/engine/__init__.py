"""The container engine, Docker or Podman, used by its command line."""
