"""The API server of `drahealth manager`, from its options."""

from drahealth.proto.clock import SystemClock
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.manager_command.options import Options
from drahealth.suites.targets.api_servers.memory import MemoryApiServer, field_rules
from drahealth.suites.targets.api_servers.root_directory import data_folder, objects_folder
from drahealth.suites.targets.api_servers.server import ApiServerProcess


def make_server(options: Options) -> ApiServerProcess:
    """The API server, not started; gets the programs of a real one first. Raises ConfigurationError, HarnessError.

    The state of the manager belongs to the objects of one server, so a root directory keeps its kind of server.
    """
    others = objects_folder(options.root) if options.api_server == "real" else data_folder(options.root)
    if others.exists():
        earlier = "memory" if options.api_server == "real" else "real"
        raise ConfigurationError(
            f"{options.root} is the root directory of a manager with --api-server {earlier}",
            f"pass --api-server {earlier}, or another --root-dir",
        )
    if options.api_server == "memory":
        rules = field_rules(options.profile)
        return MemoryApiServer(options.root, rules=rules, gates=options.gates, clock=SystemClock(), keep=True)
    from rich.console import Console

    from drahealth.suites.targets.api_servers.real import real_api_servers
    from drahealth.suites.targets.stage_printer import StagePrinter

    progress = StagePrinter(Console(stderr=True, highlight=False))
    return real_api_servers(options.kubernetes, progress, options.gates)(options.root)
