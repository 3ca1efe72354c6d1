"""The cache folder: Kubernetes binaries, and packages for images."""

import os
from pathlib import Path

import platformdirs


def default_root() -> Path:
    """The folder that DRAHEALTH_CACHE names, or the user's cache folder."""
    return Path(os.environ.get("DRAHEALTH_CACHE") or platformdirs.user_cache_path("drahealth")).absolute()
