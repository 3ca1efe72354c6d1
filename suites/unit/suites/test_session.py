"""One run of scenarios: its target is started at most once."""

from collections.abc import Iterator

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.run.options import Options
from drahealth.suites.run.session import Session


class Unwilling:
    """A target that does not start."""

    def __init__(self, error: Exception) -> None:
        self.calls: list[str] = []
        self._error = error

    async def start(self) -> None:
        self.calls.append("start")
        raise self._error

    async def stop(self) -> None:
        self.calls.append("stop")

    def log_tail(self) -> str:
        return "its last words"


@pytest.fixture
def session(pytestconfig: pytest.Config) -> Iterator[Session]:
    session = Session(Options.make({}), pytestconfig)
    yield session
    session.close()


def test_no_target_is_started_without_a_scenario(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Options, "make_target")
    assert session.log_tail() == ""


def test_a_target_is_started_once(session: Session) -> None:
    assert session.target is session.target


@pytest.mark.parametrize("error", [HarnessError("no node"), OSError("no space left"), RuntimeError("a bug")])
def test_a_target_that_does_not_start_is_tried_once_and_stopped(
    session: Session, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    target = Unwilling(error)
    monkeypatch.setattr(Options, "make_target", lambda *_: target)
    for _ in range(3):
        with pytest.raises(type(error), match=str(error)):
            assert session.target
    assert target.calls == ["start", "stop"]
