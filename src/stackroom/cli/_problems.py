"""What the command line itself refuses; the message is one line that says what to do."""

from __future__ import annotations


class Refused(Exception):
    """A command cannot be done; exit code 1."""


class WrongUsage(Exception):
    """A command was asked for in a way that it does not take; exit code 2."""
