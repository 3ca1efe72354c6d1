"""docs/readings.md: where the texts disagree, written from suites/judging/readings.toml."""

from collections.abc import Iterator

from drahealth.suites.judging.readings import TEXTS, Reading, readings

INTRODUCTION = """\
The texts of KEP-4680 disagree on some topics. For each topic, this page has the statements of the texts, our reading
and the reason. A reading is the statement that drahealth uses. It comes from the newest revision of the KEP, if that
revision has a statement; otherwise from the design document, then from older revisions, then from Kubernetes.
[requirements.md](requirements.md) names the reading of each requirement that depends on one. Ids such as H-15 are facts
in [facts.md](facts.md).

"""


def readings_page(note: str) -> str:
    """The page; `note` names its source."""
    return "".join(_parts(note)).rstrip() + "\n"


def _parts(note: str) -> Iterator[str]:
    yield f"# Readings\n\n{note}{INTRODUCTION}| text | meaning |\n|---|---|\n"
    yield from (f"| {text} | {meaning} |\n" for text, meaning in TEXTS.items())
    for reading in readings().values():
        yield from _reading(reading)


def _reading(reading: Reading) -> Iterator[str]:
    yield f"\n## {reading.id}\n\n**{reading.topic}**\n\n| text | section | statement |\n|---|---|---|\n"
    for statement in reading.statements:
        yield f"| {statement.text} | {statement.section} | {statement.says} |\n"
    named = ", ".join(f"[{name}](requirements.md#{name.lower()})" for name in reading.requirements)
    yield f"\n- Our reading: {reading.holds}\n- Reason: {reading.why}\n- Requirements: {named}\n"
