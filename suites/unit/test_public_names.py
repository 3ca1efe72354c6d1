"""The public names of the parts of drahealth."""

import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

from drahealth.proto.package import modules_of
from drahealth.suites import Node, Pod, ReferenceKubelet
from drahealth.suites.unit.public_names import PARTS, members, public_names

CHECKOUT = Path(__file__).parents[2]
HEAVY = {"aiohttp", "asyncio", "google.protobuf", "grpc", "kubernetes", "pydantic", "pytest", "ruamel.yaml"}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_exports_the_names_that_type_checkers_see(part: str) -> None:
    package = import_module(part)
    assert sorted(package.__all__) == sorted(modules_of(part))
    assert set(package.__all__) <= set(dir(package))


def test_every_public_name_can_be_imported_with_a_star() -> None:
    code = "\n".join(f"from {part} import *; print(__version__); del __version__" for part in PARTS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [metadata.version("drahealth")] * len(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_every_public_name_is_documented(part: str) -> None:
    assert [name for name, sentence in public_names(part) if not sentence] == []


@pytest.mark.parametrize("kind", [Node, Pod, ReferenceKubelet])
def test_every_public_member_is_documented(kind: type) -> None:
    assert [call for call, sentence in members(kind) if not sentence] == []


@pytest.mark.parametrize("part", PARTS)
def test_an_unknown_name_is_an_attribute_error(part: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{part}' has no attribute 'nothing'"):
        import_module(part).nothing  # noqa: B018


def test_importing_the_parts_loads_nothing_heavy() -> None:
    code = f"import sys, {', '.join(PARTS)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
    assert {name for name in done.stdout.split() if name.startswith("drahealth.")} == {
        *PARTS,
        "drahealth.proto.package",
    }


def test_the_examples_of_the_page_pass_and_leave_nothing_behind() -> None:
    done = subprocess.run(
        [sys.executable, CHECKOUT / "ci/docs/check-examples"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("passed")) == (0, 4), done.stdout + done.stderr


def test_the_examples_of_the_page_have_at_most_twenty_lines() -> None:
    page = (CHECKOUT / "docs/python.md").read_text()
    lengths = [code.partition("```")[0].count("\n") for code in page.split("```python\n")[1:]]
    assert max(lengths) <= 20
