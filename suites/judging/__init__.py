"""What a run is judged by: requirements, known issues, invariants, violations, and the report."""
