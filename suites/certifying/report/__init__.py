"""The reports of `drahealth check` and `certify`: one document with a JSON Schema, and a page made from it."""
