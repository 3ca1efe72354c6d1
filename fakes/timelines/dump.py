"""Timelines as YAML: what is written is read as the same timeline."""

import io
from typing import Any

from drahealth.fakes.timelines.model import Timeline


def dump(timeline: Timeline) -> str:
    """The file of a timeline, what it does not say left out."""
    from ruamel.yaml import YAML  # heavy, and only who writes files needs it

    data = timeline.model_dump(mode="json", by_alias=True, exclude_unset=True)
    data["timeline"] = [step.model_dump(mode="json", by_alias=True, exclude_unset=True) for step in timeline.timeline]
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(_quoted(data), text)
    return text.getvalue()


def _quoted(data: Any) -> Any:
    """With what could be taken for the end of a line in double quotes, where it is escaped."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(data, dict):
        return {key: _quoted(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_quoted(value) for value in data]
    return DoubleQuotedScalarString(data) if isinstance(data, str) and not data.isprintable() else data
