"""CI: ci/step defines the steps. .ci/run and the workflows call all of them, and nothing else."""

import gzip
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PREPARATION = {"sudo", "curl", "ci/set-up"}
"""Commands of the workflows that prepare the machine."""
ON_KIND = {"ci/drahealth", "ci/deploy/kind-demo"}
"""Commands of the workflows that need a kind cluster. .ci/run does not create one."""
STEP = """#!/bin/sh
[ $# -gt 0 ] || {{ printf '%s - what it does\\n' {steps}; exit; }}
echo "ran $1"
case $1 in {failing}) exit 5 ;; esac
"""
"""A ci/step whose steps do nothing; some of them fail."""


def steps() -> list[str]:
    listed = subprocess.run([ROOT / "ci" / "step"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines()]


def workflow(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)


def commands(path: Path) -> Iterator[list[str]]:
    """The words of the command of each step that has one."""
    for job in workflow(path)["jobs"].values():
        yield from (step["run"].split() for step in job["steps"] if "run" in step)


def test_a_clean_clone_runs_each_step_once() -> None:
    called = re.findall(r"^start_steps \d+ (.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert sorted(" ".join(called).split()) == sorted(steps())


@pytest.mark.skipif(shutil.which("setsid") is None, reason="the steps need setsid of util-linux")
@pytest.mark.parametrize("failing", [[], ["tests", "wheel", "kubelet"]])
def test_a_failed_step_does_not_stop_the_others_and_is_named_at_the_end(tmp_path: Path, failing: list[str]) -> None:
    script(tmp_path / "ci" / "step", STEP.format(steps=" ".join(steps()), failing="|".join(failing) or "-"))
    script(tmp_path / "ci" / "set-up", "#!/bin/sh\n")
    script(tmp_path / ".ci" / "run", (ROOT / ".ci" / "run").read_text())
    done = subprocess.run([tmp_path / ".ci" / "run"], stdout=subprocess.PIPE, text=True, check=False)
    ran = re.findall(r"^ran (.*)$", done.stdout, re.MULTILINE)
    named = re.findall(r"FAILED steps: (.*)$", done.stdout.splitlines()[-1])
    assert (sorted(ran), named, done.returncode) == (sorted(steps()), [" ".join(failing)][: len(failing)], len(named))


def script(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="the steps need setsid of util-linux")
def test_a_run_that_is_ended_ends_its_steps_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lives")
    step = f"exec 3> {tmp_path}/lives; echo >&3; sleep 1000"
    script(tmp_path / "ci" / "step", f"#!/bin/sh\n[ $# = 0 ] || {{ {step}; }}\n")
    script(tmp_path / "ci" / "set-up", "#!/bin/sh\n")
    script(tmp_path / ".ci" / "run", (ROOT / ".ci" / "run").read_text())
    run = subprocess.Popen([tmp_path / ".ci" / "run"], stdout=subprocess.DEVNULL)
    with (tmp_path / "lives").open() as lives:
        lives.readline()
        run.terminate()
        assert (run.wait(), lives.read().strip()) == (1, "")  # two steps start


def test_the_workflow_of_a_push_runs_each_step() -> None:
    called = {words[1] for words in commands(ROOT / ".github/workflows/ci.yml") if words[0] == "ci/step"}
    assert called == set(steps())


def test_the_workflows_run_only_steps() -> None:
    used = {words[0] for path in WORKFLOWS for words in commands(path)}
    assert used - PREPARATION - ON_KIND == {
        "ci/step",
        "ci/e2e/repeat",
        "ci/mutants/prove-statements",
        "ci/mutants/check-generated-drivers",
        "ci/mutants/check-wrong-kubelets",
        "ci/docs/generate",
        "ci/release",
    }


def test_the_weekly_workflow_repeats_the_scenarios_and_generates_scripts() -> None:
    (weekly,) = (path for path in WORKFLOWS if "schedule" in workflow(path)["on"])
    assert [words[0] for words in commands(weekly)].count("ci/e2e/repeat")
    assert ["ci/step", "differential"] in [words[:2] for words in commands(weekly)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_has_a_limit_of_minutes(path: Path) -> None:
    assert [name for name, job in workflow(path)["jobs"].items() if "timeout-minutes" not in job] == []


def test_the_release_workflow_is_off_until_a_maintainer_switches_it_on() -> None:
    release = workflow(ROOT / ".github/workflows/release.yml")
    assert {name: job["if"] for name, job in release["jobs"].items()} == {"release": "vars.RELEASES == 'on'"}
    assert release["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("arguments", [("build", "v9.9.9"), ("publish", "0.1.0"), ("build",), (), ("biuld",)])
def test_a_release_with_another_tag_or_command_is_refused(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([ROOT / "ci" / "release", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, bool(done.stderr)) == (2, "", True)


VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
RELEASED = [
    f"drahealth-{VERSION}-py3-none-any.whl",
    f"drahealth-{VERSION}.tar.gz",
    f"drahealth-driver-{VERSION}.tgz",
    f"drahealth-driver-image-{VERSION}.tar.gz",
]
GH = """#!/bin/sh
printf '%s\\n' "$@" > "$RECORDED/arguments"
cat > "$RECORDED/notes"
"""
"""A `gh` that records its arguments and its input."""


DOCKER = """#!/bin/sh
case $1 in
  save) [ "$2" = --output ] && echo "an image of ${4##*/}" > "$3"; exit "${DOCKER_SAVES:-0}" ;;
esac
"""
"""A `docker` that writes a text as the image."""


def release(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ci/release in a checkout that has only what it reads, with a `gh` that records."""
    for name in ("ci/release", "fakes/chart/Chart.yaml", "pyproject.toml"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    script(checkout / "bin" / "gh", GH)
    script(checkout / "bin" / "docker", DOCKER)
    environment = {**os.environ, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "RECORDED": str(checkout)}
    words = [str(checkout / "ci" / "release"), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A checkout with the files of a release, and its section in CHANGELOG.md."""
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {VERSION}\n\n- New.\n\n### Fixed\n\n## 0.0.1\n\n- Old.\n"
    )
    (tmp_path / "dist").mkdir()
    for name in RELEASED:
        (tmp_path / "dist" / name).write_text(name)
    sums = subprocess.run(["sha256sum", *RELEASED], cwd=tmp_path / "dist", capture_output=True, check=True).stdout
    (tmp_path / "dist" / "SHA256SUMS").write_bytes(sums)
    return tmp_path


def test_a_release_without_a_heading_in_the_changelog_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    done = release(tmp_path, "build", f"v{VERSION}")
    assert (done.returncode, f"needs the heading ## {VERSION}" in done.stderr) == (2, True)


def test_the_image_becomes_an_archive_with_a_checksum(built: Path) -> None:
    assert release(built, "image").returncode == 0
    archive = built / "dist" / RELEASED[3]
    assert gzip.decompress(archive.read_bytes()) == f"an image of drahealth-driver:{VERSION}\n".encode()
    assert sha256(archive.read_bytes()).hexdigest() in (built / "dist" / "SHA256SUMS").read_text()


def test_failed_image_save_leaves_no_release_file(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_SAVES", "1")
    (built / "dist" / RELEASED[3]).unlink()
    assert release(built, "image").returncode == 1
    assert not (built / "dist" / RELEASED[3]).exists()


def test_publish_makes_a_draft_of_the_tag_with_its_files_and_its_notes(built: Path) -> None:
    done = release(built, "publish", f"v{VERSION}")
    assert (done.returncode, done.stderr) == (0, "")
    options = ["--draft", "--verify-tag", "--title", f"drahealth {VERSION}", "--notes-file", "-"]
    recorded = (built / "arguments").read_text().splitlines()
    assert recorded == ["release", "create", f"v{VERSION}", *options, *RELEASED, "SHA256SUMS"]
    assert (built / "notes").read_text() == "\n- New.\n\n### Fixed\n\n"


@pytest.mark.parametrize("name", [*RELEASED, "SHA256SUMS"])
def test_publish_refuses_a_release_without_one_of_its_files(built: Path, name: str) -> None:
    (built / "dist" / name).unlink()
    done = release(built, "publish", f"v{VERSION}")
    assert (done.returncode, f"no dist/{name}" in done.stderr, (built / "arguments").exists()) == (2, True, False)


def test_publish_refuses_a_file_that_has_changed(built: Path) -> None:
    (built / "dist" / RELEASED[0]).write_text("changed")
    assert release(built, "publish", f"v{VERSION}").returncode == 1
    assert not (built / "arguments").exists()


def test_an_unknown_step_is_refused_with_the_names_of_all() -> None:
    done = subprocess.run([ROOT / "ci" / "step", "test"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split(": ")[-1].split()) == (2, steps())
