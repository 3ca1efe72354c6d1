"""How an experiment ends early."""


class NotApplicable(Exception):
    """The experiment does not apply to this driver; the message is the observation that proves it."""


class Unavailable(Exception):
    """This machine cannot run the experiment; the message says why, and what to do. An error of the harness."""


class Incomplete(Exception):
    """The driver made it impossible to finish the experiment; the message says how."""
