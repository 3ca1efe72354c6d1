"""Fault timelines: a file that schedules what happens to the devices of a node.

`durations` and `model` define the file. `load` reads one and reports all its errors. `plan` is a pure function of the
timeline, its seed and the devices; its result is a list of `actions`. `play` does them at their times on a `stage`.
"""
