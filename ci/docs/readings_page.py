"""docs/reference/readings.md: where the texts disagree, written from suites/judging/readings.toml."""

from collections.abc import Iterator

from drahealth.suites.judging.ledger import READING_TEXTS, Reading, readings

INTRODUCTION = """\
The texts of KEP-4680 disagree on some topics. For each topic, this page has the statements of the texts, our reading
and the reason for our reading. A reading is the statement that drahealth uses. If the newest revision of the KEP has a
statement on the topic, our reading follows this statement. Otherwise our reading follows the next text with a
statement, in this order: the design document, older revisions, Kubernetes. If a reading does not follow this order, it
gives the reason.

Some requirements depend on a reading. For these requirements, [requirements.md](requirements.md) names the reading. Ids
such as H-15 and B-11 are facts in [facts.md](../facts.md).

"""


def readings_page(note: str) -> str:
    """The page; `note` names its source."""
    return "".join(_parts(note)).rstrip() + "\n"


def _parts(note: str) -> Iterator[str]:
    yield f"# Readings\n\n{note}{INTRODUCTION}| text | meaning |\n|---|---|\n"
    yield from (f"| {text} | {meaning} |\n" for text, meaning in READING_TEXTS.items())
    for reading in readings().values():
        yield from _reading(reading)


def _reading(reading: Reading) -> Iterator[str]:
    yield f"\n## {reading.id}\n\n**{reading.topic}**\n\n| text | section | statement |\n|---|---|---|\n"
    for statement in reading.statements:
        yield f"| {statement.text} | {statement.section} | {statement.says} |\n"
    named = ", ".join(f"[{name}](requirements.md#{name.lower()})" for name in reading.requirements)
    yield f"\n- Our reading: {reading.holds}\n- Reason: {reading.why}\n- Requirements: {named}\n"
