"""The folder for what is kept between runs: binaries of Kubernetes, packages for images."""

import os
from pathlib import Path

import platformdirs


def default_root() -> Path:
    """DRAHEALTH_CACHE, or the user's cache folder."""
    return Path(os.environ.get("DRAHEALTH_CACHE") or platformdirs.user_cache_path("drahealth")).absolute()
