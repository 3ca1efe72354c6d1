"""The parts of one running cluster."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from drahealth.suites.targets.kubelet.binaries.releases import Binaries
from drahealth.suites.targets.kubelet.node import credentials
from drahealth.suites.targets.kubelet.node.api_probe import ApiProbe
from drahealth.suites.targets.kubelet.node.component_gates import ComponentGates
from drahealth.suites.targets.kubelet.node.control_plane import ControlPlane, certificate_flags, clients_with
from drahealth.suites.targets.kubelet.node.kubelet import Kubelet
from drahealth.suites.targets.kubelet.node.layout import Layout
from drahealth.suites.targets.kubelet.node.ports import Reservation, outward_address
from drahealth.suites.targets.kubelet.node.processes import Keeper, Process
from drahealth.suites.targets.node_readiness import NodeReadiness
from drahealth.suites.targets.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Parts:
    """The keeper, its processes, a connection to the API server at the URL `server`, and the ports."""

    keeper: Keeper
    probe: ApiProbe
    control_plane: ControlPlane
    kubelet: Kubelet
    readiness: NodeReadiness
    server: str
    again: bool
    """Whether the data of an earlier start are there."""
    kubelet_port: int
    closing: contextlib.AsyncExitStack

    @classmethod
    async def make(
        cls,
        binaries: Binaries,
        run_dir: RunDirectory,
        layout: Layout,
        node_name: str,
        *,
        gates: ComponentGates,
        keep: bool,
        api_port: int,
    ) -> "Parts":
        """Starts only the keeper; with `keep` the folder stays when this process is killed.

        The API server gets `api_port` if it is free. Raises HarnessError if this machine does not allow it.
        """
        again = layout.etcd_dir.exists()
        async with contextlib.AsyncExitStack() as stack:
            api, kubelet_port = Reservation(api_port), Reservation()
            stack.callback(api.release)
            stack.callback(kubelet_port.release)
            server = f"https://127.0.0.1:{api.port}"
            token = credentials.write(layout, server, node_name)
            programs = {binaries.kubelet.parent, binaries.kube_apiserver.parent, binaries.etcd.parent}
            programs |= {binaries.kube_scheduler.parent, binaries.kube_controller_manager.parent}
            keeper = await Keeper.start(run_dir, sorted(programs), keep=keep)
            probe = ApiProbe(server, token)
            stack.push_async_callback(probe.close)
            return cls(
                keeper,
                probe,
                ControlPlane(
                    keeper,
                    binaries,
                    layout,
                    api.port,
                    clients=clients_with(gates),
                    audit=True,
                    flags=certificate_flags(layout),
                ),
                Kubelet(keeper, binaries, layout, node_name, outward_address()),
                NodeReadiness(probe, node_name, again=again),
                server,
                again,
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
