"""An engine and a kind that are not there."""

from pathlib import Path

import pytest

from drahealth.suites.unit.targets.kind.fake_engine import FakeEngine


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """On a PATH where nothing else is, with a state folder of its own."""
    engine = FakeEngine(tmp_path / "engine")
    monkeypatch.setenv("PATH", str(engine.path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("KIND_EXPERIMENTAL_PROVIDER", "DRAHEALTH_NODE_IMAGE", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    return engine
