"""The published schemas, and the examples in docs/timelines.md."""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.load import inventory_schema, load
from drahealth.fakes.timelines.model import VERBS
from drahealth.fakes.timelines.plan import Plan
from drahealth.fakes.timelines.validation import checked_plan
from drahealth.suites.unit import command_process

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
SHIPPED = sorted((ROOT / "fakes" / "timelines" / "shipped").glob("*.timeline.yaml"))
HEAD: dict[str, Any] = {"format": "fault-timeline/v1", "name": "n"}


def check(document: Any, name: str = "timeline") -> None:
    """Raises jsonschema's ValidationError."""
    schema = json.loads((DOCS / "reference" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_schema_accepts_shipped_timelines(path: Path) -> None:
    check(YAML(typ="safe", pure=True).load(path))


@pytest.mark.parametrize(
    "step",
    [
        {"recover": {"action": "reboot", "takes": "catalogue", "fails": "30%"}},
        {"recover": {"action": "reboot", "takes": "20s..40s", "fails": True}},
        {"inject": "thermal/slowdown", "device": "gpu-0", "for": "catalogue"},
        {"at": "exp(5m)", "stream": {"send": {"device": "gpu-0", "health": 99, "message": {"length": 9}}}},
        {"taint": {"key": "a.example.com/sick", "effect": "NoExecute"}, "device": {"pick": 1}, "for": "2s"},
        {"pod": "keeps-failing", "for": "2s..3s"},
        {"parallel": [[{"mark": "a"}], [{"driver": {"upgrade": {"overlap": "2s"}}}]]},
    ],
)
def test_the_schema_accepts_every_form(step: Any) -> None:
    check({**HEAD, "timeline": [step]})


@pytest.mark.parametrize(
    "step", [{"injct": "xid/79"}, {"at": "soon", "mark": "a"}, {"driver": "explode"}, {"stream": {"drop": 30}}]
)
def test_the_schema_rejects_misspelled_keys(step: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check({**HEAD, "timeline": [step]})


def test_the_schema_of_inventories_accepts_one() -> None:
    gpus = {"name": "gpu", "count": 8, "partitions": [{"name": "mig", "count": 7}]}
    check({"format": "inventory/v1", "devices": [gpus]}, "inventory")


def test_each_key_of_an_inventory_has_a_meaning() -> None:
    schema = inventory_schema()
    keys = [item for part in (schema, *schema["$defs"].values()) for item in part["properties"].items()]
    assert [key for key, about in keys if not about.get("description")] == []


def _page_blocks() -> list[str]:
    """The indented blocks of the page for authors."""
    page = (DOCS / "timelines.md").read_text()
    return [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n)+", page, re.MULTILINE)]


def _examples() -> list[str]:
    return [block.strip() + "\n" for block in _page_blocks() if block.strip().startswith("format:")]


def _verbs(steps: Any) -> set[str]:
    """The verbs of steps, and of the steps in them."""
    found = {key for step in steps for key in step if key in VERBS}
    for step in steps:
        inner = [step.get("repeat", {}).get("do", []), *step.get("parallel", [])]
        found |= {verb for some in inner for verb in _verbs(some)}
    return found


def test_the_page_for_authors_has_an_example_of_every_step() -> None:
    read = [YAML(typ="safe", pure=True).load(example) for example in _examples()]
    assert {verb for one in read for verb in _verbs([*one["timeline"], *one.get("always", [])])} == set(VERBS)
    page = (DOCS / "timelines.md").read_text()
    syntax = page[page.index("## Syntax of every step") :]
    assert [verb for verb in VERBS if f"| `{verb}` | `{{{verb}: " not in syntax] == []


@pytest.mark.long
def test_the_examples_on_the_page_for_authors_pass(tmp_path: Path) -> None:
    for number, example in enumerate(_examples()):
        (tmp_path / f"{number}.timeline.yaml").write_text(example)
    played = command_process.run(command_process.COMMAND, "play", str(tmp_path), folder=tmp_path)
    assert (played.returncode, played.stdout.count("PASS")) == (0, len(_examples())), played.stdout + played.stderr


def test_the_page_for_authors_shows_the_plan_of_its_timeline() -> None:
    blocks = _page_blocks()
    written = next(block for block in blocks if block.strip().startswith("format:"))
    shown = [line for block in blocks for line in block.splitlines() if line.startswith("{")]
    plan: Plan = checked_plan(load(written)[0], Inventory.of(2))
    assert list(plan.to_lines()) == shown
