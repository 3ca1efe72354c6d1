"""What commands and plugins import when they start. pyproject.toml has the imports that are permitted."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("part", ["fakes", "suites"])
def test_a_part_has_at_most_eight_modules_at_its_root(part: str) -> None:
    assert len(list((CHECKOUT / part).glob("*.py"))) <= 8


def test_every_folder_of_modules_is_a_package() -> None:
    """Otherwise `find_packages` in setup.py leaves it out of the wheel without a word."""
    parts = ("fakes", "manager", "proto", "suites")
    folders = {path.relative_to(CHECKOUT).parent for part in parts for path in (CHECKOUT / part).rglob("*.py")}
    bare = [str(folder) for folder in sorted(folders) if not (CHECKOUT / folder / "__init__.py").exists()]
    assert [folder for folder in bare if not folder.startswith("suites/unit")] == []


def test_the_options_of_all_targets_need_only_the_standard_library() -> None:
    code = "import sys; before = set(sys.modules)\nfrom drahealth.suites.targets import registry\n"
    code += "list(registry.options('run')); print(*{n.partition('.')[0] for n in set(sys.modules) - before})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - sys.stdlib_module_names == {"drahealth"}


def test_the_pytest_plugin_imports_pytest_and_options_alone_until_it_is_needed() -> None:
    statements = ast.parse((CHECKOUT / "suites/run/plugin.py").read_text()).body
    assert [ast.unparse(one) for one in statements if isinstance(one, ast.Import | ast.ImportFrom)] == [
        "import argparse",
        "from pathlib import Path",
        "from typing import TYPE_CHECKING",
        "import pytest",
        "from drahealth.suites.targets import registry",
        "from drahealth.suites.targets.option import Option",
    ]


def test_the_reference_needs_no_client_of_real_clusters() -> None:
    code = "import sys, drahealth.suites.targets.reference.target; print(*{n.partition('.')[0] for n in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"drahealth", "kubernetes", "pytest"} & set(done.stdout.split()) == {"drahealth"}


def test_the_supervisor_of_a_node_imports_what_is_slow_after_its_start() -> None:
    code = "import sys, drahealth.suites.up_command.supervisor; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    slow = {"grpc", "aiohttp", "kubernetes", "drahealth.fakes.cluster.api_server"}
    assert {"asyncio", *slow} & set(done.stdout.split()) == {"asyncio"}


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
    code += "import drahealth.fakes.command, drahealth.fakes.ctl.own_commands, drahealth.fakes.serve.program\n"
    code += "import drahealth.fakes.serve.live_view, drahealth.fakes.serve.metrics"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
