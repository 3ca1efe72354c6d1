"""The reports of `drahealth run`, `check` and `certify`: documents, pages, badges and texts."""
