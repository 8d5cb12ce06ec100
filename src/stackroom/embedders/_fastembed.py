"""FastEmbedEmbedder: models in ONNX by the package fastembed. Needs the extra of that name."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

import numpy as np

from stackroom._errors import EmbedderError
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
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stackroom.embedders._protocol import Fingerprint

_PACKAGE: Final = "fastembed"

Pooling = Literal["mean", "cls", "last_token", "none"]

_POOLING_TYPES: Final = {"mean": "MEAN", "cls": "CLS", "last_token": "LAST_TOKEN", "none": "DISABLED"}
_DECLARED_POOLINGS: Final = {"mean": "mean", "cls": "cls", "lasttoken": "last_token"}
_OLD_POOLING_KEYS: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}

_registering = threading.Lock()


class FastEmbedEmbedder:
    """Embeds with a model that fastembed lists, given by its name, or with an ONNX model in a folder.

    Passages go to ``passage_embed`` and queries to ``query_embed``. These apply the tasks of a few models, and put no
    prompts in front: give models that want them `query_prompt` and `passage_prompt`, as their cards say.

    A folder holds an ONNX file (`model_file`, its path below the folder, when there are several), ``tokenizer.json``
    and ``tokenizer_config.json``. `pooling` says how its tokens become one vector: "mean", "cls", "last_token", or
    "none" when the model answers whole vectors; None reads it from ``1_Pooling/config.json``. A name has its own.
    `dimension` keeps the first components alone, for models that were trained so (Matryoshka).

    The id of the fingerprint is ``fastembed:<name>``, or ``fastembed:sha256=<digest>;pooling=…`` of a folder's files,
    and tells given prompts by a digest; `id` takes its place as it stands. `max_input_chars` None takes four
    characters for each token that the model reads; it ignores the rest of a text.

    `batch_size` texts are computed at a time. One is as fast on a CPU, where longer texts pad no others, and only then
    is a text's vector its own: models that are quantised dynamically scale each pass by all that is in it.

    The model is loaded when it is first needed, the fingerprint included, once; from the cache (`cache_dir`) when it
    is there. A text that the model knows no word of has a vector of its own.

    ImportError, with the pip line that helps, when the package is missing. ValueError: an option that is none.
    EmbedderError: the model cannot be had, or has fewer than `dimension` dimensions.
    """

    provider: ClassVar[str] = _PACKAGE
    max_concurrency: ClassVar[int] = 1

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        pooling: Pooling | None = None,
        model_file: str | None = None,
        dimension: int | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        id: str | None = None,  # noqa: A002 - a fingerprint's word for it
        max_input_chars: int | None = None,
        max_batch: int | None = None,
        batch_size: int = 1,
        cache_dir: str | os.PathLike[str] | None = None,
        threads: int | None = None,
    ) -> None:
        check_options(
            id=id,
            dimension=dimension,
            prompts=(query_prompt, passage_prompt),
            max_input_chars=max_input_chars,
            max_batch=max_batch,
            batch_size=batch_size,
            threads=threads,
        )
        if pooling is not None and pooling not in get_args(Pooling):
            raise ValueError('pooling must be "mean", "cls", "last_token" or "none"')
        require_package("fastembed", _PACKAGE, "FastEmbedEmbedder")
        self._place = ModelPlace.of(model)
        if not self._place.is_folder and (pooling is not None or model_file is not None):
            raise ValueError("pooling and model_file are for a folder; a model that fastembed lists has its own")
        self._pooling = pooling
        self._model_file = model_file
        self._dimension = dimension
        self._query_prompt = query_prompt
        self._passage_prompt = passage_prompt
        self._id = id
        self._max_input_chars = max_input_chars
        self.max_batch = max_batch
        self._batch_size = batch_size
        self._options: dict[str, Any] = {"threads": threads}
        if cache_dir is not None:
            self._options["cache_dir"] = str(cache_dir)
        self._loaded = Once(self._load)

    def __repr__(self) -> str:
        return f"FastEmbedEmbedder({self._place.given!r})"

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
        prompted = [f"{self._passage_prompt or ''}{text}" for text in texts]
        vectors = np.stack(list(self._loaded().model.passage_embed(prompted, batch_size=self._batch_size)))
        return with_directions(vectors[:, : self._dimension], texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a search's text, shape (dimension,)."""
        vector: NDArray[np.float32] = with_directions(self._query_vectors(self._loaded().model, text), [text])[0]
        return vector

    def _query_vectors(self, model: Any, text: str) -> NDArray[Any]:
        vectors = np.stack(list(model.query_embed([f"{self._query_prompt or ''}{text}"])))
        return vectors[:, : self._dimension]

    def _load(self) -> Loaded:
        prompts = prompts_id(self._query_prompt, self._passage_prompt)
        with loading(self._place, _PACKAGE):
            model, id_ = self._from_folder(prompts) if self._place.is_folder else self._from_list(prompts)
            learned = self._query_vectors(model, PROBE).shape[1]
            most_chars = chars_of(_most_tokens(model))
        fingerprint = fingerprint_of(id_ if self._id is None else self._id, learned, self._dimension)
        return Loaded(model, fingerprint, most_chars)

    def _from_list(self, prompts: str | None) -> tuple[Any, str]:
        """Load a model that fastembed lists; its id has the name as it is spelled there."""
        from fastembed import TextEmbedding

        names = {listed["model"].lower(): listed["model"] for listed in TextEmbedding.list_supported_models()}
        name = names.get(self._place.given.lower())
        if name is None:
            raise EmbedderError(
                f"fastembed knows no model {self._place}; give one that TextEmbedding.list_supported_models() lists, "
                "or a folder with a model in ONNX"
            )
        return TextEmbedding(name, **self._options), ModelPlace(name).id(_PACKAGE, prompts)

    def _from_folder(self, prompts: str | None) -> tuple[Any, str]:
        from fastembed import TextEmbedding

        folder = Path(self._place.given)
        pooling = self._pooling or _declared_pooling(folder)
        file, is_only = _onnx_file(folder, self._model_file)
        name = _registered(self._place, pooling, file)
        model = TextEmbedding(name, specific_model_path=self._place.given, **self._options)
        which = None if is_only else f"file={file}"
        return model, self._place.id(_PACKAGE, f"pooling={pooling}", which, prompts)


def _registered(place: ModelPlace, pooling: str, file: str) -> str:
    """Tell fastembed of the model in a folder, under a name that says all that it is told."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    name = f"{place.given};{pooling};{file}"
    with _registering:
        if name.lower() not in {listed["model"].lower() for listed in TextEmbedding.list_supported_models()}:
            TextEmbedding.add_custom_model(
                name,
                pooling=PoolingType[_POOLING_TYPES[pooling]],
                normalization=True,
                sources=ModelSource(hf="in/a-folder"),  # one must be named; with a folder at hand none is asked
                dim=0,  # not known before the model is loaded, and read by its listing alone
                model_file=file,
            )
    return name


def _onnx_file(folder: Path, named: str | None) -> tuple[str, bool]:
    """Return the path of the ONNX file below a folder, and whether it is the only one there."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.onnx"))
    file = named if named is not None else next(iter(found), "model.onnx")
    if (named is None and len(found) > 1) or file not in found:
        raise EmbedderError(
            f"the folder {folder} must hold one ONNX file, or model_file must name one of those it holds: {found}"
        )
    return file, len(found) == 1


def _declared_pooling(folder: Path) -> str:
    """Read the pooling that sentence-transformers saves beside a model, in its old format or its new one."""
    try:
        config = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        config = {}
    old = [mode for key, mode in _OLD_POOLING_KEYS.items() if config.get(key) is True]
    declared = config.get("pooling_mode", old[0] if len(old) == 1 else None)
    pooling = _DECLARED_POOLINGS.get(declared) if isinstance(declared, str) else None
    if pooling is None:
        raise EmbedderError(
            f"the folder {folder} does not say how its model's tokens become one vector; give pooling: "
            '"mean", "cls", "last_token", or "none" when the model answers whole vectors'
        )
    return pooling


def _most_tokens(model: Any) -> int | None:
    """Return how many tokens of a text the model reads, where its tokenizer tells."""
    truncation = getattr(getattr(model.model, "tokenizer", None), "truncation", None)
    return None if truncation is None else int(truncation["max_length"])
