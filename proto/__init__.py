"""The wire, and the values that both sides share.

Each API has a `.proto` file and its generated modules. `services` has the methods and their real paths, `health_apis` a
codec for each health API. The others are `values`, `events` (the content of a history) and `clock`. Nothing here
imports other parts of the project.
"""
