"""The decorator for mutants that are device plugins."""

from functools import partial

from drahealth.suites.checking.mutants.table import mutant

plugin_mutant = partial(mutant, subject="device-plugin")
"""Registers a class as a mutant that is a device plugin."""
