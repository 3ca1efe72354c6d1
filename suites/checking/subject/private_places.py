"""The places of a driver in a sandbox: it sees the usual paths, and its directories are folders of the run.

The folders have short names, so that a socket has a path that is usable from outside too.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from drahealth.suites.checking.sandbox.declared import CDI_DIR, CDI_DIRS, KUBELET_DIR, SERVICE_ACCOUNT_DIR, Sandbox
from drahealth.suites.checking.subject.places import Places
from drahealth.suites.errors import ConfigurationError


def private_places(declared: Sandbox, root: Path, kubeconfig: Path | None, node: str, driver_name: str) -> Places:
    """The places of a driver whose sandbox has private directories. The folders are created.

    Raises OSError, and ConfigurationError for a volume whose directory does not exist.
    """
    folders = private_folders(declared, root)
    for path, folder in folders.items():
        if not folder.is_relative_to(root):
            if not folder.is_dir():
                raise ConfigurationError(f"there is no directory {folder} for the volume at {path}", "create it")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(_mode(Path(path)))
    for volume in declared.volumes:
        for name, text in volume.files:
            file = folders[_real(volume.path)] / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    kubelet_dir, cdi_dir = folders[_real(KUBELET_DIR)], folders[_real(CDI_DIR)]
    seen = [(Path(path), folders[_real(path)]) for path in declared.private_directories]
    for short, name in (("r", "plugins_registry"), ("p", "plugins")):
        (kubelet_dir / name).mkdir(exist_ok=True)
        (root / short).symlink_to(kubelet_dir / name)
        seen.append((Path(KUBELET_DIR, name), root / short))
    others = {folders[_real(path)] for path in CDI_DIRS} - {cdi_dir}
    places = Places(
        *(kubelet_dir, root / "r", root / "p", cdi_dir, kubeconfig, node, driver_name),
        more_cdi_dirs=tuple(sorted(others)),
        seen=tuple(seen),
        service_account=folders.get(_real(SERVICE_ACCOUNT_DIR)),
    )
    places.make()
    return places


def private_folders(declared: Sandbox, root: Path) -> Mapping[str, Path]:
    """The folder of each private directory. Directories that are the same on this machine share a folder."""
    short = {KUBELET_DIR: root / "k", CDI_DIR: root / "c"}
    found: dict[str, Path] = {}
    for path in declared.private_directories:
        found.setdefault(_real(path), short.get(path, root / f"private{path}"))
    own = dict(found)
    for volume in declared.volumes:
        if volume.source and volume.source != volume.path:
            found[_real(volume.path)] = _of_node(Path(_real(volume.source)), own)
    return found


def _of_node(source: Path, own: Mapping[str, Path]) -> Path:
    """Where a directory of the node is: below a folder of the run if it is private; otherwise on this machine."""
    inside = max((path for path in own if source.is_relative_to(path)), key=len, default="")
    return own[inside] / source.relative_to(inside) if inside else source


def _mode(path: Path) -> int:
    """The permissions of a private directory: those that it has on this machine, or the usual ones."""
    try:
        return stat.S_IMODE(path.stat().st_mode) | 0o700
    except OSError:
        return 0o755


def _real(path: str) -> str:
    return os.path.realpath(path)
