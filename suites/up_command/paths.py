"""Where drivers find the kubelet and the API server of a node: the same for its supervisor and for other processes."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NodePaths:
    """The paths of a node, for drivers."""

    kubelet_root: Path
    device_plugins_dir: Path
    kubeconfig: Path
    """With a token, which needs no client library."""

    @classmethod
    def of(cls, folder: Path, *, reference: bool) -> "NodePaths":
        """The paths in the folder of a node, which need not run."""
        from drahealth.suites.targets.kubelet.node.credentials import ADMIN
        from drahealth.suites.targets.kubelet.node.layout import Layout

        layout = Layout(folder)
        root = layout.kubelet_root
        if reference:
            return cls(root, root / "device-plugins", root / "kubeconfig")
        return cls(root, layout.device_plugins_dir, layout.kubeconfig(ADMIN))

    @property
    def registry_dir(self) -> Path:
        """Where drivers put their registration sockets."""
        return self.kubelet_root / "plugins_registry"

    @property
    def plugins_dir(self) -> Path:
        """Where drivers put their own sockets."""
        return self.kubelet_root / "plugins"
