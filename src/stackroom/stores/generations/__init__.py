"""Stores over databases without transactions: what they share. An adapter implements `Engine`, and that is all."""

from stackroom.stores.generations._engine import Engine, Found, Nearest, Place, Row, ShelfIsGone, Stored, Worded
from stackroom.stores.generations._store import GenerationStore

__all__ = ["Engine", "Found", "GenerationStore", "Nearest", "Place", "Row", "ShelfIsGone", "Stored", "Worded"]
