"""FunctionEmbedder: a function of your own as an embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence  # noqa: TC003 - the dataclass's field types can be looked up at run time
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from numpy.typing import ArrayLike  # noqa: TC002 - likewise

from stackroom.embedders._door import checked_passage_vectors
from stackroom.embedders._protocol import Fingerprint, limit_problem


@dataclass(frozen=True, slots=True)
class FunctionEmbedder:
    """Embeds passages by ``function(texts) -> vectors``, which is given a list of str.

    Queries go to ``query_function(text) -> vector`` when it is given, else to ``function([text])``, whose one row is
    taken. ``id`` and ``dimension`` are the fingerprint: name in ``id`` all that changes vectors. What breaks a rule
    of a fingerprint or of a limit (None, or an int of at least 1) is a ValueError; what cannot be called, a TypeError.
    """

    function: Callable[[list[str]], ArrayLike]
    _: KW_ONLY
    id: str
    dimension: int
    max_input_chars: int | None = None
    query_function: Callable[[str], ArrayLike] | None = None
    max_batch: int | None = None
    max_concurrency: int | None = None

    provider: ClassVar[str] = "function"

    def __post_init__(self) -> None:
        Fingerprint(self.id, self.dimension)
        for name in ("max_input_chars", "max_batch", "max_concurrency"):
            problem = limit_problem(name, getattr(self, name))
            if problem is not None:
                raise ValueError(problem)
        for name in ("function", "query_function"):
            given = getattr(self, name)
            if not callable(given) and not (name == "query_function" and given is None):
                raise TypeError(f"{name} must be a function, not {type(given).__name__}")

    @property
    def fingerprint(self) -> Fingerprint:
        """The ``id`` and ``dimension`` that were given."""
        return Fingerprint(self.id, self.dimension)

    def embed_passages(self, texts: Sequence[str]) -> ArrayLike:
        """Return what the function answers to the texts, as it is."""
        return self.function(list(texts))

    def embed_query(self, text: str) -> ArrayLike:
        """Return what the query function answers, or the function's row for this one text.

        An EmbedderError says that the function did not answer exactly one row of numbers.
        """
        if self.query_function is not None:
            return self.query_function(text)
        vector: ArrayLike = checked_passage_vectors(self.function([text]), 1, self.dimension)[0]
        return vector
