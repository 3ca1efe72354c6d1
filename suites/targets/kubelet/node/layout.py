"""The paths in the folder of one run, and what its processes see of the machine."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from drahealth.suites.processes.mounts import MountPlan

_RESOLUTION = {
    "hosts": "127.0.0.1 localhost {node}\n",
    "resolv.conf": "nameserver 127.255.255.254\n",  # refuses at once, where a lost network would let a kubelet wait
}
"""Files of the run that are mounted in /etc, and their content, with the name of the node."""
_HOME = "/var/lib/kubelet"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one run; `root` is its folder."""

    root: Path

    @property
    def kubelet_root(self) -> Path:
        """The --root-dir of the kubelet. Its name has one letter because it contains sockets with long names."""
        return self.root / "k"

    @property
    def plugins_dir(self) -> Path:
        """The folder for the folders and sockets of DRA drivers."""
        return self.kubelet_root / "plugins"

    @property
    def registry_dir(self) -> Path:
        """The folder for the registration sockets of DRA drivers."""
        return self.kubelet_root / "plugins_registry"

    @property
    def device_plugins_dir(self) -> Path:
        """The folder for `kubelet.sock` and the sockets of device plugins."""
        return self.root / "device-plugins"

    @property
    def pod_logs_dir(self) -> Path:
        """The podLogsDir of the kubelet."""
        return self.root / "pod-logs"

    @property
    def static_pods_dir(self) -> Path:
        """The staticPodPath of the kubelet."""
        return self.root / "static-pods"

    @property
    def pki_dir(self) -> Path:
        """Keys and certificates."""
        return self.root / "pki"

    @property
    def etcd_dir(self) -> Path:
        """The data of etcd."""
        return self.root / "etcd"

    @property
    def logs_dir(self) -> Path:
        """The folder of the logs, one for each component."""
        return self.root / "logs"

    @property
    def temporary_dir(self) -> Path:
        """TMPDIR of the components."""
        return self.root / "tmp"

    @property
    def tokens(self) -> Path:
        """The static tokens of the API server."""
        return self.root / "pki" / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        """The key for the tokens of service accounts."""
        return self.root / "pki" / "service-accounts.key"

    @property
    def client_authority(self) -> Path:
        """The certificate of the authority for client certificates."""
        return self.root / "pki" / "clients-ca.crt"

    @property
    def admin_certificate(self) -> tuple[Path, Path]:
        """The client certificate of the administrator, and its key."""
        return self.root / "pki" / "admin.crt", self.root / "pki" / "admin.key"

    @property
    def kubelet_client_certificate(self) -> tuple[Path, Path]:
        """The client certificate of the API server for its requests to the kubelet, and its key."""
        return self.root / "pki" / "kubelet-client.crt", self.root / "pki" / "kubelet-client.key"

    @property
    def server_certificate(self) -> Path:
        """The certificate of the API server, with that of its authority."""
        return self.root / "pki" / "apiserver.crt"

    @property
    def server_key(self) -> Path:
        """The key of the API server's certificate."""
        return self.root / "pki" / "apiserver.key"

    @property
    def kubelet_certificate(self) -> tuple[Path, Path]:
        """The certificate of the kubelet's server, and its key."""
        return self.root / "pki" / "kubelet.crt", self.root / "pki" / "kubelet.key"

    @property
    def audit_policy(self) -> Path:
        """The audit policy of the API server."""
        return self.root / "pki" / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        """The audit log of the API server."""
        return self.logs_dir / "audit.log"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one user."""
        return self.root / "pki" / f"{user}.kubeconfig"

    def log(self, component: str) -> Path:
        """The output of the component since the run began."""
        return self.logs_dir / f"{component}.log"

    def make(self, *, kubelet: bool = True, node_name: str = "") -> None:
        """Makes the folders, with or without those of a kubelet, and the files for the confinement of processes.

        In the confinement, the name of the node is one of this machine, where the API server reaches the kubelet.
        """
        folders = [self.pki_dir, self.logs_dir, self.temporary_dir]
        if kubelet:
            folders += [self.plugins_dir, self.registry_dir, self.device_plugins_dir]
            folders += [self.pod_logs_dir, self.static_pods_dir]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in _RESOLUTION.items():
            (self.root / name).write_text(text.format(node=node_name), encoding="utf-8")

    def mount_plan(self, needed: Iterable[Path]) -> MountPlan:
        """The mounts of the run's processes: they can read the machine, and write only to the folder of the run.

        A kubelet assumes that it owns its machine: it sets sysctls, deletes files that match the log path of a
        container, and makes folders below /var/lib and /var/log. So every mount but the folder of the run is
        read-only, /var/lib and /var/log are empty memory, and two files of the run resolve names. The kubelet's root
        is mounted at /var/lib/kubelet too: drivers name paths there. No flag moves device-plugins below it, so a
        folder of the run is mounted there. A user namespace alone is not enough for root, who can still write the
        files of root. `needed` are folders that stay visible.
        """
        folders = {f"/etc/{name}": str(self.root / name) for name in _RESOLUTION if Path("/etc", name).exists()}
        if self.device_plugins_dir.is_dir():
            folders |= {_HOME: str(self.kubelet_root), f"{_HOME}/device-plugins": str(self.device_plugins_dir)}
        return MountPlan(
            folders,
            needed=tuple(map(str, needed)),
            empty=("/var/lib", "/var/log"),
            writable=(os.path.realpath(self.root),),
        )
