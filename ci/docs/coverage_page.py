"""coverage.md of the evidence: what judges each statement of the texts, written from suites/judging/statements.toml."""

from collections import Counter
from collections.abc import Iterator

from drahealth.suites.judging.ledger import TEXTS, VERDICTS, JudgedStatement, statements

INTRODUCTION = """\
This page lists the testable statements of KEP-4680 and of other texts, and some statements that no test can judge. The
last table names the scenarios and tests that judge a statement. If several revisions of the KEP have a statement, this
table has one row for this statement, with the newest of these revisions.

Most rows name requirements. docs/reference/requirements.md has the requirements for kubelets and API servers, with
their scenarios. docs/reference/driver-requirements.md has the requirements for drivers.

In the last table:

- “Status” means a Pod status with its container statuses.
- “The field” means `allocatedResourcesStatus` of a container status. An entry is one element of the field.
- “The Pod's own field” means a second field `allocatedResourcesStatus`. The KEP defines this field in the Pod status
  itself. No release has this field.
- “The feature gate” means the gate ResourceHealthStatus.
- In a remark, “the scenario” means the scenario of the row.
- “The Go package” means kubeletplugin. “The Python library” is its counterpart in drahealth
  (docs/python.md).
- IDs such as READ-16 are in docs/reference/readings.md. IDs such as A-17 are in docs/facts.md.

On this page, a mutant is a wrong copy of the reference or of its API server. Each mutant makes at least one scenario of
its row fail. There are two kinds of mutants:

- Mutants with a hyphen in their names are in the files of `ci/mutants/hand`, with one sentence about each mutant.
  `ci/mutants/prove-statements` runs these mutants with the scenarios of their rows. `-k TEXT-01` selects one row.
- The other mutants are Python classes. `suites/unit/suites/test_mutants.py` runs them with a scenario of their row.

"""


def coverage_page(note: str) -> str:
    """The page; `note` names its source."""
    return "".join(_parts(note)).rstrip() + "\n"


def _parts(note: str) -> Iterator[str]:
    counts = Counter(one.verdict for one in statements().values())
    yield f"# Coverage of the texts\n\n{note}{INTRODUCTION}"
    yield "| verdict | number of statements | meaning |\n|---|---|---|\n"
    yield from (f"| {verdict} | {counts[verdict]} | {meaning} |\n" for verdict, meaning in VERDICTS.items())
    yield "\n| text | meaning |\n|---|---|\n"
    yield from (f"| {text} | {meaning} |\n" for text, meaning in TEXTS.items())
    yield "\n| id | text, section | statement | verdict | requirements | judged by | mutants | remark |\n"
    yield "|" + "---|" * 8 + "\n"
    yield from map(_row, statements().values())


def _row(one: JudgedStatement) -> str:
    judges = ", ".join(f"`{name}`" for name in (*one.scenarios, *one.tests))
    mutants = ", ".join(f"`{name}`" for name in one.mutants)
    cells = (
        one.id,
        f"{one.text}, {one.section}",
        one.says,
        one.verdict,
        ", ".join(one.requirements),
        judges,
        mutants,
        one.why,
    )
    return f"| {' | '.join(cells)} |\n"
