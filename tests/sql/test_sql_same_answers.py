"""SqlStore answers what MemoryStore answers: the same ids in the same order, with the same scores."""

from __future__ import annotations

from tests.sql.of_answers import agrees_with_memory, agrees_with_memory_at_random


def test_a_librarys_answers_are_those_of_memory(url: str) -> None:
    agrees_with_memory(url)


def test_random_answers_are_those_of_memory_to_the_bit(url: str) -> None:
    agrees_with_memory_at_random(url)
