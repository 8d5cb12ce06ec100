"""A port on loopback that nobody listens on."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return one; somebody else may take it before it is used, though none here does."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
