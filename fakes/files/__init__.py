"""Files: atomic replacement, socket files, and YAML files that users write."""
