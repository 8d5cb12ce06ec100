"""What a ranker's failure leaves behind: the name of its exception's class, and with consent the exception itself.

Exceptions of a ranker may hold ids, keys and text, and may be hostile: nothing of one is called or read but its class.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from stackroom._errors import RankerError

LONGEST_NAME: Final = 64

log = logging.getLogger("stackroom.rankers")


@dataclass(frozen=True, slots=True)
class Failure:
    """The kind of a failure; `cause` is the exception itself where errors are not sanitized."""

    kind: str
    cause: Exception | None = None

    def error(self) -> RankerError:
        """Return a fresh error of this kind. Raise it outside of any `except`, so that it has no context."""
        error = RankerError(self.kind)
        error.__cause__ = self.cause
        return error


TIMED_OUT: Final = Failure("TimeoutError")


def kind_of(error: BaseException) -> str:
    """Return the name of an exception's class, or "Exception" when it is no ASCII identifier of at most 64 characters.

    The name is read as `type` stores it: neither the instance, nor a metaclass, nor a subclass of str has a say.
    """
    name = type.__dict__["__name__"].__get__(type(error))
    if str.__len__(name) <= LONGEST_NAME and str.isascii(name) and str.isidentifier(name):
        return str.encode(name, "ascii").decode("ascii")
    return "Exception"
