"""Model2VecEmbedder: static models of the package model2vec. Needs the extra of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from stackroom._packages import require_package
from stackroom.embedders._models import (
    PROBE,
    Loaded,
    ModelPlace,
    Once,
    check_options,
    fingerprint_of,
    loading,
    with_directions,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stackroom.embedders._protocol import Fingerprint

_PACKAGE: Final = "model2vec"

Quantized = Literal["float16", "int8"]


class Model2VecEmbedder:
    """Embeds with a static model of model2vec, given by its name on the hub or as a folder that holds it.

    Static models need no prompts: queries are as passages. A text of any length counts to its end, where the package
    would stop after 512 tokens. `dimension` keeps the first components alone; `quantize_to` stores the token vectors
    smaller, "float16" or "int8".

    The id of the fingerprint is ``model2vec:<name>``, or ``model2vec:sha256=<digest>`` of a folder's files, with
    ``;dtype=<quantize_to>``; `id` takes its place as it stands.

    The model is loaded when it is first needed, the fingerprint included, once; from the hub's cache when it is there.
    A text that the model knows no word of has a vector of its own.

    ImportError, with the pip line that helps, when the package is missing. ValueError: an option that is none.
    EmbedderError: the model cannot be had, or has fewer than `dimension` dimensions.
    """

    provider: ClassVar[str] = _PACKAGE
    max_concurrency: ClassVar[int] = 1

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        dimension: int | None = None,
        quantize_to: Quantized | None = None,
        id: str | None = None,  # noqa: A002 - a fingerprint's word for it
        max_input_chars: int | None = 1_000_000,
        max_batch: int | None = None,
    ) -> None:
        check_options(id=id, dimension=dimension, max_input_chars=max_input_chars, max_batch=max_batch)
        if quantize_to is not None and quantize_to not in get_args(Quantized):
            raise ValueError('quantize_to must be "float16" or "int8", or None to keep the numbers that were saved')
        require_package("model2vec", _PACKAGE, "Model2VecEmbedder")
        self._place = ModelPlace.of(model)
        self._dimension = dimension
        self._quantize_to = quantize_to
        self._id = id
        self.max_input_chars = max_input_chars
        self.max_batch = max_batch
        self._loaded = Once(self._load)

    def __repr__(self) -> str:
        return f"Model2VecEmbedder({self._place.given!r})"

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors are known by; loads the model."""
        return self._loaded().fingerprint

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of stored texts, shape (n, dimension)."""
        return with_directions(self._vectors(self._loaded().model, list(texts)), texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a search's text, shape (dimension,)."""
        vector: NDArray[np.float32] = self.embed_passages([text])[0]
        return vector

    def _load(self) -> Loaded:
        with loading(self._place, _PACKAGE):
            from model2vec import StaticModel

            model = StaticModel.from_pretrained(self._place.given, quantize_to=self._quantize_to, force_download=False)
            dtype = None if self._quantize_to is None else f"dtype={self._quantize_to}"
            id_ = self._place.id(_PACKAGE, dtype) if self._id is None else self._id
            learned = self._vectors(model, [PROBE]).shape[1]
        return Loaded(model, fingerprint_of(id_, learned, self._dimension), self.max_input_chars)

    def _vectors(self, model: Any, texts: list[str]) -> NDArray[Any]:
        vectors: NDArray[Any] = model.encode(texts, max_length=None, use_multiprocessing=False)
        return vectors[:, : self._dimension]
