"""The parts of one running cluster."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from drahealth.suites.targets.kubelet.binaries.releases import Binaries
from drahealth.suites.targets.kubelet.node import credentials
from drahealth.suites.targets.kubelet.node.api_probe import ApiProbe
from drahealth.suites.targets.kubelet.node.control_plane import ControlPlane
from drahealth.suites.targets.kubelet.node.kubelet import Kubelet
from drahealth.suites.targets.kubelet.node.layout import Layout
from drahealth.suites.targets.kubelet.node.ports import Reservation, outward_address
from drahealth.suites.targets.kubelet.node.processes import Keeper, Process
from drahealth.suites.targets.node_readiness import NodeReadiness
from drahealth.suites.targets.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Parts:
    """The keeper, its processes, a connection to the API server, and the ports."""

    keeper: Keeper
    probe: ApiProbe
    control_plane: ControlPlane
    kubelet: Kubelet
    readiness: NodeReadiness
    kubelet_port: int
    closing: contextlib.AsyncExitStack

    @classmethod
    async def make(cls, binaries: Binaries, run_dir: RunDirectory, layout: Layout, node_name: str) -> "Parts":
        """Starts only the keeper. Raises HarnessError if this machine does not allow it."""
        async with contextlib.AsyncExitStack() as stack:
            api_port, kubelet_port = Reservation(), Reservation()
            stack.callback(api_port.release)
            stack.callback(kubelet_port.release)
            server = f"https://127.0.0.1:{api_port.port}"
            token = credentials.write(layout, server, node_name)
            programs = {binaries.kubelet.parent, binaries.kube_apiserver.parent, binaries.etcd.parent}
            programs |= {binaries.kube_scheduler.parent, binaries.kube_controller_manager.parent}
            keeper = await Keeper.start(run_dir, sorted(programs))
            probe = ApiProbe(server, token)
            stack.push_async_callback(probe.close)
            return cls(
                keeper,
                probe,
                ControlPlane(keeper, binaries, layout, api_port.port, audit=True),
                Kubelet(keeper, binaries, layout, node_name, outward_address()),
                NodeReadiness(probe, node_name),
                kubelet_port.port,
                stack.pop_all(),
            )

    def processes(self) -> Sequence[Process]:
        """The processes that should be running."""
        kubelet = [self.kubelet.process] if self.kubelet.process is not None else []
        return [*self.control_plane.processes.values(), *kubelet]

    async def close(self, remove: bool) -> None:
        """Stops all processes and releases connections and ports; if asked to, removes the folder of the run."""
        try:
            await self.keeper.close(remove)
        finally:
            await self.closing.aclose()
