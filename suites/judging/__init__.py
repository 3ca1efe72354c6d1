"""The judgement of a run: requirements, known issues, invariants, violations, and the report."""
