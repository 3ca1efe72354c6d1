"""The kubelet of one run: its configuration, and its process."""

import json
import signal
from collections.abc import Mapping
from typing import Any

from drahealth.suites.processes.sandbox import RunningSandbox
from drahealth.suites.targets.kubelet.binaries.releases import Binaries
from drahealth.suites.targets.kubelet.node import credentials
from drahealth.suites.targets.kubelet.node.control_plane import environment
from drahealth.suites.targets.kubelet.node.layout import Layout
from drahealth.suites.targets.kubelet.node.processes import Process

KUBELET = credentials.KUBELET


class Kubelet:
    """One kubelet that can be stopped and started with the same folders."""

    def __init__(
        self, sandbox: RunningSandbox, binaries: Binaries, layout: Layout, node_name: str, address: str | None
    ) -> None:
        self.process: Process | None = None
        self._sandbox = sandbox
        self._binaries = binaries
        self._layout = layout
        self._node_name = node_name
        self._address = address

    async def start(self, configuration: Mapping[str, Any]) -> None:
        """Starts it with this configuration, without waiting until it is ready."""
        path = self._layout.root / "kubelet.json"
        path.write_text(json.dumps(configuration, indent=1), encoding="utf-8")
        flags = [
            f"--config={path}",
            f"--kubeconfig={self._layout.kubeconfig(KUBELET)}",
            f"--root-dir={self._layout.kubelet_root}",
            f"--cert-dir={self._layout.pki_dir}",
            f"--hostname-override={self._node_name}",
            *([f"--node-ip={self._address}"] if self._address else []),
        ]
        argv, env = [str(self._binaries.kubelet), *flags], environment(self._layout)
        log = self._layout.log(KUBELET)
        self.process = await Process.start(self._sandbox, KUBELET, argv, env, self._layout.root, log)

    async def stop(self, hard: bool) -> None:
        """Stops it: SIGKILL if `hard`, else SIGTERM. Harmless if it is stopped."""
        if self.process is not None:
            await self.process.end(signal.SIGKILL if hard else signal.SIGTERM)
        self.process = None


def configuration(
    layout: Layout, *, runtime: str, port: int, sync_frequency: float, gates: Mapping[str, bool]
) -> dict[str, Any]:
    """A KubeletConfiguration with which the kubelet changes nothing on the machine."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "tlsCertFile": str(layout.kubelet_certificate[0]),
        "tlsPrivateKeyFile": str(layout.kubelet_certificate[1]),
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(layout.client_authority)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{runtime}",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {},
        "podLogsDir": str(layout.pod_logs_dir),
        "staticPodPath": str(layout.static_pods_dir),
        "fileCheckFrequency": "1s",  # also without inotify, whose instances may be used up
        "volumePluginDir": str(layout.root / "volume-plugins"),
        "nodeStatusUpdateFrequency": "1s",  # so that what a device plugin brings can be used soon
        "syncFrequency": f"{round(sync_frequency * 1000)}ms",
        "featureGates": {"KubeletInUserNamespace": True, **gates},
    }
