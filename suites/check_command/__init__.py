"""The commands `drahealth check` and `drahealth judge`: settings from flags, live progress, verdicts and reports."""
