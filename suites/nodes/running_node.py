"""A node of `drahealth up` as a node for tests."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drahealth.fakes.control.driver import DriverControl, DriverOptions
from drahealth.fakes.control.node_folder import DEFAULT_NODE
from drahealth.fakes.control.remote import RemoteDriver
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.inventories import driver_options
from drahealth.fakes.hardware.registered import names_of
from drahealth.fakes.inventory.devices import Inventory
from drahealth.suites.nodes.running_target import RunningConfiguration, RunningTarget
from drahealth.suites.nodes.shared_node import SharedNode, driver_name


class RunningNode(SharedNode):
    """A node that `drahealth up` has started. Entering connects to it; afterwards it continues.

    It has a namespace of its own, and the drivers of `add_driver`. At the end they are removed, with everything in the
    namespace, and with the other objects that the test created. `restart_kubelet` and `Pod.exit` raise HarnessError.
    """

    def __init__(self, name: str = DEFAULT_NODE, *, namespace: str = "", keep_failed: bool = False) -> None:
        """`name` is that of `drahealth up --name`. Raises ConfigurationError for an invalid name when entered.

        `namespace` is the name of the new namespace; default: a unique name. With `keep_failed`, an exception leaves
        the namespace and its drivers.
        """
        super().__init__(RunningConfiguration(name), namespace=namespace, keep_failed=keep_failed)
        self._added: list[RemoteDriver] = []

    async def driver(self, name: str = "") -> DriverControl:
        """The driver with this name, on this node; without a name, the only driver of the node. Raises ControlFailed.

        All tests on the node share this driver. `add_driver` makes a driver for one test.
        """
        return await self._running.drivers.use(name)

    async def add_driver(
        self, devices: Sequence[str] | Inventory | None = None, **options: Any
    ) -> FakeDriver | RemoteDriver:
        """Add a driver for this test to the node, in the process of the node, and wait until it is registered.

        Its name is unique. The default devices are those of the first driver of the node. `options` are other fields of
        DriverOptions. Raises ControlFailed for invalid options, TimeoutError.
        """
        made = self._options_of(devices, options)
        driver = await self._running.drivers.add(made, self.namespace)
        self._added.append(driver)
        await driver.wait_registered()
        return driver

    def _options_of(self, devices: Sequence[str] | Inventory | None, options: dict[str, Any]) -> DriverOptions:
        first = self._running.first_driver
        name = options.pop("name", driver_name(first.name, self.namespace))
        given = {"name": name, "data_dir": str(Path(first.data_dir).with_name(name)), **options}
        if devices is None:
            return replace(first, **given)
        kept = {"node": first.node, "registry_dir": first.registry_dir, **given}
        if isinstance(devices, Inventory):
            return driver_options(devices, **kept)
        return DriverOptions(devices=names_of(devices), **kept)

    async def _end_drivers(self) -> None:
        while self._added:
            await self._running.drivers.end(self._added.pop())

    @property
    def _running(self) -> RunningTarget:
        target = self._target
        assert isinstance(target, RunningTarget)
        return target
