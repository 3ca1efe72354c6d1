"""Who may import whom, and what the installed package is made of."""

import ast
import gc
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
MAY_IMPORT = {
    "proto": {"proto"},
    "manager": {"proto", "manager"},
    "fakes": {"proto", "fakes"},
    "suites": {"proto", "manager", "fakes", "suites"},
}
MODULES = {part: sorted((CHECKOUT / part).rglob("*.py")) for part in MAY_IMPORT}


def imports(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[str]:
    """The dotted names that these nodes import; a relative import begins with a dot."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def parsed(path: Path) -> ast.Module:
    """A module, while no collector runs: CPython 3.11 takes another parse amid this one, such as a finalizer's whose
    traceback is told, for a mistake of its own (SystemError)."""
    gc.disable()
    try:
        return ast.parse(path.read_bytes())
    finally:
        gc.enable()


def imported_by(part: str) -> Iterator[tuple[str, str]]:
    """Every import of a part's modules, wherever in them it stands: the module's path and the name."""
    for path in MODULES[part]:
        for name in imports(ast.walk(parsed(path))):
            yield str(path.relative_to(CHECKOUT)), name


def test_all_four_parts_are_looked_at() -> None:
    assert all(len(modules) > 5 for modules in MODULES.values())


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_only_those_below_it(part: str) -> None:
    parts = ((path, name.split(".")[1]) for path, name in imported_by(part) if name.startswith("drahealth."))
    assert [(path, other) for path, other in parts if other not in MAY_IMPORT[part]] == []


def rooms_of(part: str) -> dict[str, set[str]]:
    """Which of a part's folders and root modules import which."""
    rooms = {path.relative_to(CHECKOUT / part).parts[0].removesuffix(".py") for path in MODULES[part]} - {"unit"}
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for path, name in imported_by(part):
        mine, others = path.split("/")[1].removesuffix(".py"), name.split(".")[2:3]
        if mine in rooms and name.startswith(f"drahealth.{part}."):
            found[mine] |= rooms.intersection(others) - {mine}
    return found


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_folders_and_root_modules_of_a_part_import_each_other_in_one_direction(part: str) -> None:
    assert set(TopologicalSorter(rooms_of(part)).static_order()) == set(rooms_of(part))  # CycleError names them


@pytest.mark.parametrize("part", ["fakes", "suites"])
def test_a_part_has_at_most_eight_modules_at_its_root(part: str) -> None:
    assert len([path for path in MODULES[part] if path.parent == CHECKOUT / part]) <= 8


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_are_absolute_and_by_the_packages_name(part: str) -> None:
    bare = {*MAY_IMPORT, ""}
    assert [(path, name) for path, name in imported_by(part) if name.split(".")[0] in bare] == []


def test_the_pytest_plugin_imports_pytest_alone_until_it_is_needed() -> None:
    assert list(imports(parsed(CHECKOUT / "suites/run/plugin.py").body)) == ["pathlib.Path", "pytest"]


def test_the_reference_needs_no_client_of_real_clusters() -> None:
    code = "import sys, drahealth.suites.targets.reference.target; print(*{n.partition('.')[0] for n in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"drahealth", "kubernetes", "pytest"} & set(done.stdout.split()) == {"drahealth"}


def test_the_command_imports_nothing_heavy_until_a_subcommand_needs_it() -> None:
    code = "import sys, drahealth.suites.command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "grpc", "aiohttp", "pydantic", "pytest", "ruamel.yaml", "jinja2", "rich.console"}
    assert {"typer", *heavy} & set(done.stdout.split()) == {"typer"}


def test_a_command_to_a_driver_needs_of_the_fakes_no_more_than_the_commands() -> None:
    code = "import sys; sys.argv[1:] = ['ctl', '--socket', '/nowhere', 'inject', 'xid/79', 'gpu-0']\n"
    code += "from drahealth.fakes.command import main\n"
    code += "try: main()\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    folders = {".".join(name.split(".")[:3]) for name in loaded if name.startswith("drahealth.fakes.")}
    assert not folders & {
        f"drahealth.fakes.{name}" for name in ("faults", "hardware", "timelines", "cluster", "inventory")
    }
    assert not loaded & {
        "drahealth.fakes.files.user_files",
        "asyncio",
        "grpc",
        "google.protobuf",
        "ruamel.yaml",
        "rich.console",
    }


def test_the_command_of_a_pod_needs_no_more_than_its_image_has() -> None:
    missing = ("filelock", "kubernetes", "platformdirs", "psutil", "pytest", "requests", "tenacity", "drahealth.suites")
    code = f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
    code += "import drahealth.fakes.command, drahealth.fakes.ctl.tables, drahealth.fakes.serve.running\n"
    code += "import drahealth.fakes.serve.live_view, drahealth.fakes.serve.metrics"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_folder_of_modules_is_in_the_installed_package() -> None:
    listed = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(CHECKOUT) for modules in MODULES.values() for path in modules}
    shipped = {folder for folder in folders if folder.parts[:2] != ("suites", "unit")}
    assert sorted(listed) == sorted(".".join(("drahealth", *folder.parts)) for folder in shipped)
