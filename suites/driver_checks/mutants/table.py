"""The table of mutants: each class of a wrong driver registers itself, with the checks that must catch it."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from drahealth.suites.driver_checks.verdicts import Level, SubjectKind

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A driver or a device plugin with one fault."""

    name: str
    fault: str
    """The fault, in a sentence."""
    driver: type[Any]
    caught_by: tuple[str, ...]
    """Names of the checks that must fail."""
    subject: SubjectKind = "dra-driver"
    level: Level = "check"
    """The smallest level whose experiments show the fault."""
    also: tuple[str, ...] = ()
    """Names of checks that fail only in some runs, because they see the fault only at some moments."""


MUTANTS: dict[str, Mutant] = {}
"""All mutants by name; `driver` fills it."""


def mutant(
    *caught_by: str, subject: SubjectKind = "dra-driver", level: Level = "check", also: tuple[str, ...] = ()
) -> Callable[[type[T]], type[T]]:
    """Registers a class as a mutant. Its docstring is the fault, and its name that of the mutant."""

    def register(driver: type[T]) -> type[T]:
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", driver.__name__).lower()
        assert name not in MUTANTS, f"two mutants are named {name}"
        fault = inspect.cleandoc(driver.__doc__ or "")
        MUTANTS[name] = Mutant(name, fault, driver, caught_by, subject, level, also)
        return driver

    return register
