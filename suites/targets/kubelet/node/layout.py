"""Where everything lies in the folder of one run."""

from dataclasses import dataclass
from pathlib import Path

from drahealth.suites.targets.kubelet.node.confinement import DEVICE_PLUGINS, RESOLUTION


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one run; `root` is its folder."""

    root: Path

    @property
    def kubelet_root(self) -> Path:
        """The kubelet's --root-dir; its name is one letter because sockets with long names lie in it."""
        return self.root / "k"

    @property
    def plugins_dir(self) -> Path:
        """Where DRA drivers have their own folder and socket."""
        return self.kubelet_root / "plugins"

    @property
    def registry_dir(self) -> Path:
        """Where the kubelet looks for the registration sockets of DRA drivers."""
        return self.kubelet_root / "plugins_registry"

    @property
    def device_plugins_dir(self) -> Path:
        """Where device plugins find `kubelet.sock` and serve their own socket."""
        return self.root / DEVICE_PLUGINS

    @property
    def pod_logs_dir(self) -> Path:
        """The kubelet's podLogsDir."""
        return self.root / "pod-logs"

    @property
    def pki_dir(self) -> Path:
        """Keys, and the certificate that the API server makes for itself."""
        return self.root / "pki"

    @property
    def etcd_dir(self) -> Path:
        """etcd's data."""
        return self.root / "etcd"

    @property
    def logs_dir(self) -> Path:
        """One log a component."""
        return self.root / "logs"

    @property
    def temporary_dir(self) -> Path:
        """TMPDIR of the components, which can write nowhere else."""
        return self.root / "tmp"

    @property
    def tokens(self) -> Path:
        """The API server's static tokens."""
        return self.root / "pki" / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        """Signs and verifies the tokens of service accounts."""
        return self.root / "pki" / "service-accounts.key"

    def kubeconfig(self, user: str) -> Path:
        """How one user reaches the API server."""
        return self.root / "pki" / f"{user}.kubeconfig"

    def log(self, component: str) -> Path:
        """What the component has printed since the run began."""
        return self.logs_dir / f"{component}.log"

    def make(self) -> None:
        """Makes the folders, and the files that the confinement of the processes asks for."""
        for folder in (
            self.plugins_dir,
            self.registry_dir,
            self.device_plugins_dir,
            self.pod_logs_dir,
            self.pki_dir,
            self.logs_dir,
            self.temporary_dir,
        ):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in RESOLUTION.items():
            (self.root / name).write_text(text, encoding="utf-8")
