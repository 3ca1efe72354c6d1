"""The judgement of a run: requirements, known issues, invariants, and violations."""
