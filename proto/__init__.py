"""The wire, and what both sides of it speak.

One `.proto` an API with its generated modules beside it; `services` (the methods and their real paths), `health_apis`
(each health API as a codec to the values), `values`, `events` (what a history is made of) and `clock`.
Nothing here imports the other parts of the project.
"""
