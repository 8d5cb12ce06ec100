"""SentenceTransformersEmbedder: models of the package sentence-transformers. Needs the extra of that name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Final

from stackroom._packages import require_package
from stackroom.embedders._models import (
    PROBE,
    Loaded,
    ModelPlace,
    Once,
    chars_of,
    check_options,
    fingerprint_of,
    loading,
    prompts_id,
    with_directions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stackroom.embedders._protocol import Fingerprint

_PACKAGE: Final = "sentence-transformers"
_HOME_OF_SHORT_NAMES: Final = "sentence-transformers"
_LISTS_MODULES: Final = "modules.json"


class SentenceTransformersEmbedder:
    """Embeds with a model of sentence-transformers, given by its name on the hub or as a folder that holds it.

    Passages go to the model's ``encode_document`` and queries to its ``encode_query``, so the prompts and tasks that
    it declares for each are applied; `passage_prompt` and `query_prompt` take their place ("" for none at all).
    `dimension` keeps the first components alone, for models that were trained so (Matryoshka).

    The id of the fingerprint is ``sentence-transformers:<name>``, or ``…:<name>@<revision>``, or
    ``…:sha256=<digest>`` of a folder's files, and tells given prompts by a digest; `id` takes its place as it stands.
    `max_input_chars` None takes four characters for each token that the model reads; it ignores the rest of a text.

    The model is loaded when it is first needed, the fingerprint included, once; from the hub's cache without asking
    the hub when it is there. A text that the model knows no word of has a vector of its own.

    ImportError, with the pip line that helps, when the package is missing. ValueError: an option that is none.
    EmbedderError: the model cannot be had, or has fewer than `dimension` dimensions.
    """

    provider: ClassVar[str] = _PACKAGE
    max_concurrency: ClassVar[int] = 1

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        revision: str | None = None,
        dimension: int | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        id: str | None = None,  # noqa: A002 - a fingerprint's word for it
        max_input_chars: int | None = None,
        max_batch: int | None = None,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        check_options(
            id=id,
            dimension=dimension,
            prompts=(query_prompt, passage_prompt),
            max_input_chars=max_input_chars,
            max_batch=max_batch,
            batch_size=batch_size,
        )
        require_package("sentence_transformers", _PACKAGE, "SentenceTransformersEmbedder")
        self._place = ModelPlace.of(model, revision)
        self._dimension = dimension
        self._query_prompt = query_prompt
        self._passage_prompt = passage_prompt
        self._id = id
        self._max_input_chars = max_input_chars
        self.max_batch = max_batch
        self._batch_size = batch_size
        self._device = device
        self._loaded = Once(self._load)

    def __repr__(self) -> str:
        return f"SentenceTransformersEmbedder({self._place.given!r})"

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors are known by; loads the model."""
        return self._loaded().fingerprint

    @property
    def max_input_chars(self) -> int | None:
        """What was given, else four characters a token of the model's limit; None when it has none. Loads the model."""
        return self._loaded().max_input_chars if self._max_input_chars is None else self._max_input_chars

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of stored texts, shape (n, dimension), `batch_size` of them computed at a time."""
        vectors = self._loaded().model.encode_document(
            list(texts), prompt=self._passage_prompt, batch_size=self._batch_size, show_progress_bar=False
        )
        return with_directions(vectors, texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a search's text, shape (dimension,)."""
        vector: NDArray[np.float32] = with_directions(self._query_vectors(self._loaded().model, text), [text])[0]
        return vector

    def _query_vectors(self, model: Any, text: str) -> NDArray[Any]:
        vectors: NDArray[Any] = model.encode_query([text], prompt=self._query_prompt, show_progress_bar=False)
        return vectors

    def _load(self) -> Loaded:
        with loading(self._place, _PACKAGE):
            from sentence_transformers import SentenceTransformer

            model = SentenceTransformer(
                self._place.given,
                revision=self._place.revision,
                device=self._device,
                truncate_dim=self._dimension,
                local_files_only=self._is_at_hand(),
            )
            prompts = prompts_id(self._query_prompt, self._passage_prompt)
            id_ = self._place.id(_PACKAGE, prompts) if self._id is None else self._id
            learned = self._query_vectors(model, PROBE).shape[1]
            most_chars = chars_of(model.max_seq_length)
        return Loaded(model, fingerprint_of(id_, learned, self._dimension), most_chars)

    def _is_at_hand(self) -> bool:
        """Tell whether the model needs no network: a hub that cannot be reached costs a minute of attempts.

        The list of its modules must be in the cache. Without it the package would take the transformer that another
        package may have left there, and pool in a way that is not the model's.
        """
        if self._place.is_folder:
            return True
        from huggingface_hub import try_to_load_from_cache

        name = self._place.given if "/" in self._place.given else f"{_HOME_OF_SHORT_NAMES}/{self._place.given}"
        cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
        cached = try_to_load_from_cache(name, _LISTS_MODULES, cache_dir=cache, revision=self._place.revision)
        return isinstance(cached, str)
