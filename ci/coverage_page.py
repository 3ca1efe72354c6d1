"""docs/coverage.md: what judges each statement of the texts, written from suites/judging/statements.toml."""

from collections import Counter
from collections.abc import Iterator

from drahealth.suites.judging.ledger import requirements
from drahealth.suites.judging.statements import TEXTS, VERDICTS, JudgedStatement, statements

INTRODUCTION = """\
This page lists the testable statements of KEP-4680 and of other texts, and says what judges each of them. A statement
in several revisions of the KEP is listed once, with the newest of these revisions. For most statements, the table
names requirements; [requirements.md](requirements.md) lists all requirements and their scenarios.

On this page, a mutant is a wrong copy of the reference or of its API server. Each mutant makes at least one
scenario of its row fail. The names of some mutants have a hyphen: `ci/prove-statements` runs each of these mutants with
the scenarios of its row, and `-k TEXT-01` selects one row. `suites/unit/suites/test_mutants.py` tries the other
mutants. IDs such as READ-16 are in [readings.md](readings.md), IDs such as A-17 in [facts.md](facts.md).

"""


def coverage_page(note: str) -> str:
    """The page; `note` names its source."""
    return "".join(_parts(note)).rstrip() + "\n"


def _parts(note: str) -> Iterator[str]:
    counts = Counter(one.verdict for one in statements().values())
    yield f"# Coverage of the texts\n\n{note}{INTRODUCTION}| verdict | statements | meaning |\n|---|---|---|\n"
    yield from (f"| {verdict} | {counts[verdict]} | {meaning} |\n" for verdict, meaning in VERDICTS.items())
    yield "\n| text | meaning |\n|---|---|\n"
    yield from (f"| {text} | {meaning} |\n" for text, meaning in TEXTS.items())
    yield "\n| id | text, section | statement | verdict | requirements | judged by | mutants | remark |\n"
    yield "|" + "---|" * 8 + "\n"
    yield from map(_row, statements().values())


def _row(one: JudgedStatement) -> str:
    judges = ", ".join(f"`{name}`" for name in (*one.scenarios, *one.tests))
    mutants = ", ".join(f"`{name}`" for name in one.mutants)
    cells = (one.id, f"{one.text}, {one.section}", one.says, one.verdict, _linked(one), judges, mutants, one.why)
    return f"| {' | '.join(cells)} |\n"


def _linked(one: JudgedStatement) -> str:
    pages = {True: "requirements.md", False: "driver-requirements.md"}
    return ", ".join(f"[{name}]({pages[name in requirements()]}#{name.lower()})" for name in one.requirements)
