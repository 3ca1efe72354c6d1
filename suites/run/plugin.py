"""The pytest plugin's door: options, and a look at what was collected.

It is loaded into every pytest run of an environment that has drahealth installed, so it imports nothing but pytest
and changes nothing until an option of ours is given or one of our scenarios is collected; then `reporting` takes over.
"""

from pathlib import Path

import pytest

_OPTIONS = {
    "target": ("TARGET", "what the scenarios run on: reference (default), kubelet or kind"),
    "kubernetes": ("VERSION", "Kubernetes release of a real kubelet, such as 1.37.1"),
    "profile": ("NAME", "what the reference behaves as: kep (default), v1.34, v1.35, v1.36 or v1.37"),
    "driver": ("WHERE", "where the fake driver lives: inline (default) or process; on kind it lives in a pod"),
    "health-api": (
        "NAME",
        "the drivers' one health API, such as v1alpha1.DRAResourceHealth; default: v1 and v1alpha1",
    ),
    "nodes": ("N", "kind: how many nodes the cluster has"),
    "image": ("NODE_IMAGE", "kind: the node image, if not kind's own of the release"),
    "kind-config": ("FILE", "kind: a configuration that ours is merged into"),
    "name": ("NAME", "kind: the cluster's name"),
    "keep": ("WHEN", "kind: keep the cluster afterwards: never (default), failed or always"),
    "reuse": ("NAME", "kind: run on this cluster, which is there and stays"),
    "driver-image": ("IMAGE", "kind: an image with the fake driver, instead of building one"),
    "driver-base": ("IMAGE", "kind: what the fake driver's image is built on, with Python in it"),
    "seed": ("NUMBER", "timelines: another seed than the file's"),
    "speed": ("FACTOR", "timelines: so many times as fast as the file says"),
    "report": ("FILE", "write the report of the run as JSON"),
    "histories": ("DIR", "write each scenario's history as JSON Lines"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("drahealth", "drahealth: device health of Kubernetes KEP-4680")
    for name, (metavar, text) in _OPTIONS.items():
        group.addoption(f"--drahealth-{name}", metavar=metavar, help=text)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "pytest.Collector | None":
    """Timelines are tests."""
    if not file_path.name.endswith(".timeline.yaml"):
        return None
    from drahealth.suites.run.collect import TimelineFile  # only now: it imports all the rest

    file: pytest.Collector = TimelineFile.from_parent(parent, path=file_path)
    return file


def pytest_sessionstart(session: pytest.Session) -> None:
    """A wrong option is told at once; and who controls a distributed run collects nothing, but writes the report."""
    if any(session.config.getoption(f"--drahealth-{name}") for name in _OPTIONS):
        _take_over(session.config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(hasattr(getattr(item, "function", None), "scenario") for item in items):
        _take_over(config)
        reporting = config.pluginmanager.get_plugin("drahealth-reporting")
        assert reporting
        reporting.has_scenarios(items)


def _take_over(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("drahealth-reporting"):
        from drahealth.suites.run.reporting import Reporting  # only now: it imports all the rest

        config.pluginmanager.register(Reporting(config), "drahealth-reporting")
