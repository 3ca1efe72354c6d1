"""Nodes and kubelets for other people's tests: async context managers that leave nothing behind."""

import logging

# A library prints nothing unless the program asks for it; Python would print a warning for each ended health stream.
logging.getLogger("drahealth").addHandler(logging.NullHandler())
