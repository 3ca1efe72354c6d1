"""Timelines as YAML: what is written is read as the same timeline."""

import io

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
    yaml.dump(data, text)
    return text.getvalue()
