"""Fault timelines: a file that tells what happens to the devices of a node, and when.

`durations` and `model` are what a file may say, `load` reads one with all its errors at once, `plan` is what comes of
it: a pure function of the timeline, its seed and the devices. Nothing here acts.
"""
