"""The permitted imports, and the content of the installed package."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.suites.targets.registry import FOLDERS
from drahealth.suites.unit.import_graph import ImportGraph, cycle, imported, imports, parsed, sources

CHECKOUT = Path(__file__).parents[2]
MAY_IMPORT = {
    "proto": {"proto"},
    "manager": {"proto", "manager"},
    "fakes": {"proto", "fakes"},
    "suites": {"proto", "manager", "fakes", "suites"},
}
MODULES = {part: sorted((CHECKOUT / part).rglob("*.py")) for part in MAY_IMPORT}


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    """That of the checkout; it takes a second or two, which collecting tests must not."""
    return ImportGraph.of(sources(CHECKOUT))


def imported_by(part: str) -> Iterator[tuple[str, str]]:
    """Every import of a part's modules, wherever in them it stands: the module's path and the name."""
    for path in MODULES[part]:
        for name in imported(path.read_bytes()):
            yield str(path.relative_to(CHECKOUT)), name


def test_all_four_parts_contain_modules() -> None:
    assert all(len(modules) > 5 for modules in MODULES.values())


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_only_those_below_it(part: str) -> None:
    parts = ((path, name.split(".")[1]) for path, name in imported_by(part) if name.startswith("drahealth."))
    assert [(path, other) for path, other in parts if other not in MAY_IMPORT[part]] == []


def test_no_module_is_in_an_import_cycle(graph: ImportGraph) -> None:
    assert cycle(graph.edges) == []


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_folders_and_root_modules_of_a_part_import_each_other_in_one_direction(graph: ImportGraph, part: str) -> None:
    rooms = {name: ".".join(name.split(".")[:2]) for name in graph.edges if name.startswith(f"{part}.")}
    edges: dict[str, set[str]] = {room: set() for room in rooms.values()}
    for name, room in rooms.items():
        edges[room] |= {rooms[other] for other in graph.edges[name] & rooms.keys()}
    assert cycle({room: frozenset(others - {room}) for room, others in edges.items()}) == []


def test_pairs_of_places_count_once_and_public_names_are_no_imports() -> None:
    graph = ImportGraph.of(
        {
            "fakes/__init__.py": b"if TYPE_CHECKING:\n    from drahealth.fakes.a.one import One",
            "fakes/a/__init__.py": b"",
            "fakes/a/one.py": b"from drahealth.fakes.root import x\nfrom drahealth.fakes.b import other",
            "fakes/a/two.py": b"from drahealth.fakes.b.other import y",
            "fakes/b/__init__.py": b"",
            "fakes/b/other.py": b"",
            "fakes/root.py": b"import drahealth.proto.values",
            "proto/values.py": b"",
        }
    )
    root_alone = {("fakes.a", "fakes.root"), ("fakes.a", "fakes.b"), ("fakes.root", "proto")}
    assert graph.between(graph.place) == root_alone
    assert graph.between(graph.folder) == {("fakes.a", "fakes"), ("fakes.a", "fakes.b"), ("fakes", "proto")}


@pytest.mark.parametrize("part", ["fakes", "suites"])
def test_a_part_has_at_most_eight_modules_at_its_root(graph: ImportGraph, part: str) -> None:
    assert len(graph.roots(part)) <= 8


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_are_absolute_and_by_the_packages_name(part: str) -> None:
    bare = {*MAY_IMPORT, ""}
    assert [(path, name) for path, name in imported_by(part) if name.split(".")[0] in bare] == []


def test_the_options_of_all_targets_need_only_the_standard_library() -> None:
    code = "import sys; before = set(sys.modules)\nfrom drahealth.suites.targets import registry\n"
    code += "list(registry.options('run')); print(*{n.partition('.')[0] for n in set(sys.modules) - before})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - sys.stdlib_module_names == {"drahealth"}


def test_a_target_imports_nothing_from_the_folder_of_another(graph: ImportGraph) -> None:
    folders = [f"{folder.removeprefix('drahealth.')}." for folder in FOLDERS.values()]
    edges = [(name, other) for name, others in graph.edges.items() for other in others]
    homes = [[next((f for f in folders if f"{end}.".startswith(f)), None) for end in edge] for edge in edges]
    assert [edge for edge, (home, other) in zip(edges, homes, strict=True) if home and other not in (home, None)] == []


def test_the_pytest_plugin_imports_pytest_and_options_alone_until_it_is_needed() -> None:
    assert list(imports(parsed((CHECKOUT / "suites/run/plugin.py").read_bytes()).body)) == [
        "argparse",
        "pathlib.Path",
        "typing.TYPE_CHECKING",
        "pytest",
        "drahealth.suites.targets.registry",
        "drahealth.suites.targets.option.Option",
    ]


def test_the_reference_needs_no_client_of_real_clusters() -> None:
    code = "import sys, drahealth.suites.targets.reference.target; print(*{n.partition('.')[0] for n in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"drahealth", "kubernetes", "pytest"} & set(done.stdout.split()) == {"drahealth"}


def test_the_command_imports_nothing_heavy_until_a_subcommand_needs_it() -> None:
    code = "import sys, drahealth.suites.command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "grpc", "aiohttp", "pydantic", "pytest", "ruamel.yaml", "jinja2", "rich.console"}
    assert {"typer", *heavy} & set(done.stdout.split()) == {"typer"}


@pytest.mark.parametrize("words", [["--help"], ["faults", "list"]])
def test_only_commands_with_the_options_of_targets_import_targets(words: list[str]) -> None:
    code = f"import sys; sys.argv[1:] = {words}\nfrom drahealth.suites.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: print(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.splitlines()[-1].split() if "drahealth.suites.targets" in name] == []


@pytest.mark.parametrize(("word", "loaded"), [("ctl", "drahealth.fakes.command"), ("run", "drahealth.suites.command")])
def test_commands_of_the_fakes_load_nothing_of_the_suites(word: str, loaded: str) -> None:
    code = f"import sys; sys.argv[1:] = ['{word}', '--nonsense']\nfrom drahealth.suites.__main__ import main\n"
    code += "try: main()\nexcept SystemExit as ended: print(ended.code, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, *modules = done.stdout.split()
    assert (code, loaded in modules) == ("2", True)
    assert ("drahealth.suites.command" in modules) is (word == "run")


def test_driver_command_loads_only_the_command_modules_of_the_fakes() -> None:
    code = "import sys; sys.argv[1:] = ['ctl', '--socket', '/nowhere', 'inject', 'xid/79', 'gpu-0']\n"
    code += "from drahealth.suites.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    folders = {".".join(name.split(".")[:3]) for name in loaded if name.startswith("drahealth.fakes.")}
    assert not folders & {
        f"drahealth.fakes.{name}" for name in ("faults", "hardware", "timelines", "cluster", "inventory", "serve")
    }
    assert {name for name in loaded if name.startswith("drahealth.suites.")} == {"drahealth.suites.__main__"}
    assert not loaded & {
        "drahealth.fakes.control.replies",
        "drahealth.fakes.ctl.own_commands",
        "drahealth.fakes.program.user_files",
        "drahealth.proto.values",
        "asyncio",
        "grpc",
        "google.protobuf",
        "ruamel.yaml",
        "rich.console",
    }


def test_the_command_of_a_pod_needs_no_more_than_its_image_has() -> None:
    missing = ("filelock", "kubernetes", "platformdirs", "psutil", "pytest", "requests", "tenacity", "drahealth.suites")
    code = f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
    code += "import drahealth.fakes.command, drahealth.fakes.ctl.tables, drahealth.fakes.serve.program\n"
    code += "import drahealth.fakes.serve.live_view, drahealth.fakes.serve.metrics"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
