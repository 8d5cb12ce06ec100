"""Documents in bulk; so far, how a caller asks a long run to end."""

from stackroom._cancel import CancelToken

__all__ = ["CancelToken"]
