"""The page docs/targets.md: what each target can do, and its options, from the definitions of the targets."""

from drahealth.suites.targets import registry
from drahealth.suites.targets.capabilities import Capability


def targets_page(note: str) -> str:
    """The page; `note` says what it was made from."""
    targets = list(registry.definitions())
    lines = ["# Targets\n\n" + note]
    lines.append("A target is what the scenarios run on. `--target NAME` chooses it.\n\n| target | |\n| --- | --- |\n")
    lines += [f"| `{target.name}` | {target.summary} |\n" for target in targets]
    lines.append(
        "\n## Capabilities\n\nRequirements and scenarios name the capabilities that they need. On a target without\n"
    )
    lines.append("one of them they are not applicable.\n\n")
    lines.append("\n".join([*head("capability", "meaning", *(target.name for target in targets)), ""]))
    for capability in Capability:
        has = ["yes" if target.can(capability) else "no" for target in targets]
        lines.append(f"| `{capability.value}` | {capability.meaning} | {' | '.join(has)} |\n")
    lines.append("\n")
    lines += [f"- {t.name} cannot `{c.value}`: {why}.\n" for t in targets for c, why in t.missing.items()]
    lines.append("\n## Options\n\nOf `drahealth run` and `drahealth play`; pytest has each as `--drahealth-NAME`.\n\n")
    lines.append("\n".join([*head("option", "meaning", "targets"), ""]))
    for option, takers in registry.options("run"):
        lines.append(f"| `--{option.name} {option.metavar}` | {option.help} | {', '.join(takers)} |\n")
    lines.append("\nOf `drahealth doctor`:\n\n" + "\n".join([*head("option", "meaning", "targets"), ""]))
    for option, takers in registry.options("doctor"):
        lines.append(f"| `{f'--{option.name} {option.metavar}'.strip()}` | {option.help} | {', '.join(takers)} |\n")
    return "".join(lines)


def head(*columns: str) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
