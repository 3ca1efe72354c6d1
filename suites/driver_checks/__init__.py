"""Checks and certification of drivers: experiments, evidence, checks, verdicts, driver profiles and certificates."""
