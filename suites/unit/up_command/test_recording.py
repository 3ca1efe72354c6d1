"""docs/up.cast, which `ci/docs/up-picture` records."""

import json
from pathlib import Path

CAST = Path(__file__).parents[3] / "docs" / "up.cast"


def test_the_recording_is_an_asciicast_of_a_whole_session() -> None:
    header, *events = map(json.loads, CAST.read_text().splitlines())
    times = [when for when, _, _ in events]
    text = "".join(shown for _, _, shown in events)
    assert (header["version"], {kind for _, kind, _ in events}, times == sorted(times)) == (2, {"o"}, True)
    assert '"health":"Unhealthy"' in text
    assert text.endswith("node drahealth is removed\r\n")
