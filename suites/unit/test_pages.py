"""ci/docs/check-pages and ci/docs/check-workflow, which run what pages show, and the page with the example project."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "ci" / "docs" / "examples" / "controller"
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
STEPS = """
      - {name: fails, run: "false"}
      - {name: later, run: echo LATER}
      - {name: last, if: always(), run: echo LAST}
"""


def ci(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "ci" / "docs" / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of ci/docs/check-pages, and those that it imports from ci/docs/pages.py."""
    monkeypatch.syspath_prepend(ROOT / "ci" / "docs")
    names = runpy.run_path(str(ROOT / "ci" / "docs" / "check-pages"))
    return names | vars(sys.modules["pages"])


def test_the_page_names_the_files_of_the_project_that_ci_runs_and_shows_its_workflow() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    files = subprocess.run(["git", "ls-files"], cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True).stdout
    workflow = ".github/workflows/test.yml"
    assert [name for name in files.split() if name not in page] == []
    assert f"`{workflow}`:\n\n```yaml\n{(PROJECT / workflow).read_text()}```\n" in page


@pytest.mark.parametrize(
    ("block", "commands"),
    [
        ("    drahealth up\n    drahealth load a \\\n      b\n", ["drahealth up", "drahealth load a \\\n  b"]),
        ("    $ cat > a <<END\n    text\n    END\n    $ ls\n    a\n", ["cat > a <<END\ntext\nEND", "ls"]),
        ("`a.py`, run by `python a.py`:\n\n```python\nimport os\n```\n", ["python a.py"]),
        ("    drahealth run [--target TARGET]\n", []),
        ("    format: inventory/v1\n", []),
    ],
)
def test_the_commands_of_a_block_are_found(pages: dict[str, Any], block: str, commands: list[str]) -> None:
    found = pages["read_page"](f"# A page\n\n{block}\nText.\n")
    assert [each.text for each in found if isinstance(each, pages["Command"])] == commands


@pytest.mark.parametrize("name", PAGES)
def test_no_command_hides_in_another_block(pages: dict[str, Any], name: str) -> None:
    blocks = pages["read_page"]((ROOT / name).read_text())
    others = [block.text for block in blocks if isinstance(block, pages["Other"]) and "[--" not in block.text]
    assert [text for text in others if re.search(r"^(\$ |(ci/)?drahealth )", text, re.MULTILINE)] == []


def test_each_block_of_the_readme_runs(pages: dict[str, Any]) -> None:
    blocks = pages["read_page"]((ROOT / "README.md").read_text())
    assert [block.text for block in blocks if isinstance(block, pages["Other"])] == []


@pytest.mark.parametrize(
    ("printed", "output", "shown"),
    [
        (["passed in 1.3 s"], ["warning", "passed in  22.7 s"], True),
        (["a", "...", "c, ledger b40b8d14"], ["a", "b", "c, ledger 0123abcd"], True),
        (["gpu-0 [x] ... end"], ["gpu-1 [x] more end"], True),
        (["gpu-0 Unhealthy"], ["gpu-0 Healthy"], False),
        (["a", "b"], ["b", "a"], False),
    ],
)
def test_an_output_has_the_printed_lines(
    pages: dict[str, Any], printed: list[str], output: list[str], shown: bool
) -> None:
    assert pages["shows"](printed, output) == shown


def test_a_long_command_is_the_command_of_its_step(pages: dict[str, Any]) -> None:
    steps = (ROOT / "ci" / "step").read_text()
    bodies = dict(re.findall(r"^  ([a-z-]+)\) #.*?\n(.*?);;", steps, re.DOTALL | re.MULTILINE))
    run_by = {command: step.removeprefix("ci/step ") for command, step in pages["LONG"].items() if step}
    assert [command for command, step in run_by.items() if f"    {command} " not in bodies[step]] == []


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("$ echo git clone\ngit clone\n", 0),
        ("$ echo git clone\ngit pull\n", 1),
        ("$ echo git clone; false\n", 1),
        ("$ echo git clone; exit 3\n", 1),
    ],
)
def test_a_command_must_do_what_its_page_shows(tmp_path: Path, block: str, code: int) -> None:
    page = tmp_path / "page.md"
    page.write_text("A page:\n\n" + "".join(f"    {line}\n" for line in block.splitlines()))
    assert ci("check-pages", page).returncode == code


def test_an_interrupted_reader_ends_its_command_at_once(tmp_path: Path) -> None:
    page, began = tmp_path / "page.md", tmp_path / "began"
    os.mkfifo(began)
    page.write_text(f"A page:\n\n    $ echo git clone > {began}; sleep 1000\n")
    in_the_background = ["env", "--ignore-signal=INT"]  # as a shell starts a program with &
    reader = subprocess.Popen([*in_the_background, sys.executable, ROOT / "ci" / "docs" / "check-pages", page])
    began.read_text()
    reader.terminate()
    assert reader.wait(50) == 1  # Terminal.close would kill it after 60 s


def test_sections_are_the_blocks_below_headings(pages: dict[str, Any]) -> None:
    page = "# A page\n\n    pip a\n\n## One\n\nText.\n\n## Two\n\n    pip b\n\n### Three\n\n    pip c\n"
    parts = pages["sections"](page, list(pages["read_page"](page)))
    assert [[block.text for block in part] for part in parts] == [["pip a"], ["pip b", "pip c"]]


def test_two_pages_can_show_files_of_the_same_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"A page:\n\n    $ echo git clone > printed\n    $ cat file\n    {name}\n")
    assert ci("check-pages", tmp_path / "a", tmp_path / "b").returncode == 0


@pytest.mark.parametrize(
    ("steps", "code", "printed"),
    [
        (STEPS, 1, ["LAST"]),
        ("\n      - {uses: actions/upload-artifact@v4, with: {path: nothing}}", 1, []),
        (
            "\n      - {run: 'echo PATH >> $GITHUB_PATH; echo SET'}\n      - {run: 'echo ${PATH%%:*}'}",
            0,
            ["SET", "PATH"],
        ),
    ],
)
def test_a_workflow_runs_as_on_github(tmp_path: Path, steps: str, code: int, printed: list[str]) -> None:
    file = tmp_path / ".github" / "workflows" / "test.yml"
    file.parent.mkdir(parents=True)
    file.write_text(f"jobs:\n  a:\n    steps:{steps}\n")
    done = ci("check-workflow", tmp_path)
    assert (done.returncode, re.findall(r"^[A-Z]+$", done.stdout, re.MULTILINE)) == (code, printed)


LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: str) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\(.*?\)", "", title)).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", [*PAGES, *(str(path.relative_to(ROOT)) for path in ROOT.glob("ci/**/README.md"))])
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(name: str) -> None:
    page, broken = ROOT / name, []
    for link in LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target.read_text()))):
            broken.append(link)
    assert broken == []


def test_each_page_that_the_code_names_exists() -> None:
    words = ["git", "grep", "-hoE", r"(^|[^/A-Za-z])docs/[a-zA-Z0-9_/-]+\.(md|json|py|svg|cast|webp)\b", "--"]
    done = subprocess.run([*words, ":!suites/unit"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    named = set(re.findall(r"docs/.+", done.stdout))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
