"""Docker or Podman by their command lines, as programs that leave nothing behind."""
