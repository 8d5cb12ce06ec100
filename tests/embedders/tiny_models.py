"""Tiny models that tests make and save in each package's own format; no hub is reached."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS: Final = (*_SPECIAL, "red", "fox", "blue", "whale", "query", ":", "passage", "hello", "world", "spring", "budget")
DIMENSION: Final = 16
MAX_TOKENS: Final = 32
PROMPTS: Final = {"query": "query : ", "document": "passage : "}


def model2vec_folder(folder: Path, seed: int = 7, dimension: int = DIMENSION) -> Path:
    """Save a static model of model2vec: a vector a word, of unit length together."""
    from model2vec import StaticModel

    model = StaticModel(_vectors(seed, dimension), _tokenizer(), config={"normalize": True}, normalize=True)
    model.save_pretrained(folder)
    return folder


def fastembed_folder(
    folder: Path,
    seed: int = 7,
    *,
    file: str = "onnx/model.onnx",
    pooling: str | None = "mean",
    is_quantised: bool = False,
) -> Path:
    """Save a model in ONNX that answers a vector for each token, and beside it what sentence-transformers would."""
    save_onnx(folder / file, seed, is_quantised=is_quantised)
    _tokenizer().save(str(folder / "tokenizer.json"))
    tokens = {"model_max_length": MAX_TOKENS, "pad_token": _SPECIAL[0]}
    for name, config in {"tokenizer_config": tokens, "config": {"pad_token_id": 0}, "special_tokens_map": {}}.items():
        (folder / f"{name}.json").write_text(json.dumps(config), encoding="utf-8")
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": pooling}), encoding="utf-8")
    return folder


def sentence_transformers_folder(folder: Path, seed: int = 7) -> Path:
    """Save a BERT of two layers with mean pooling and prompts, by the package sentence-transformers itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages, about each other
        import torch
        from sentence_transformers import SentenceTransformer, models
        from transformers import BertConfig, BertModel, BertTokenizerFast

        torch.manual_seed(seed)
        shape = {"hidden_size": DIMENSION, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        bert = BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=MAX_TOKENS, **shape))
        bert.save_pretrained(folder / "bert")
        (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
        tokenizer = BertTokenizerFast.from_pretrained(str(folder), model_max_length=MAX_TOKENS)
        tokenizer.save_pretrained(folder / "bert")
        modules = [models.Transformer(str(folder / "bert")), models.Pooling(DIMENSION)]
        SentenceTransformer(modules=modules, prompts=dict(PROMPTS), device="cpu").save(str(folder / "saved"))
    return folder / "saved"


def save_onnx(path: Path, seed: int, dimension: int = DIMENSION, *, is_quantised: bool = False) -> None:
    """Save a graph that looks the vectors of tokens up; a quantised one rounds them by the range of the whole pass."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    looked_up = "found" if is_quantised else "last_hidden_state"
    nodes = [helper.make_node("Gather", ["vectors", "input_ids"], [looked_up])]
    if is_quantised:
        scaled = ["rounded", "scale", "zero"]
        nodes.append(helper.make_node("DynamicQuantizeLinear", [looked_up], scaled))
        nodes.append(helper.make_node("DequantizeLinear", scaled, ["last_hidden_state"]))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["n", "t", dimension])
    vectors = numpy_helper.from_array(_vectors(seed, dimension), "vectors")
    graph = helper.make_graph(nodes, "tiny", inputs, [output], [vectors])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def into_cache(folder: Path, cache: Path, name: str, commit: str = "a" * 40) -> Path:
    """Lay a model's files as a download from the hub leaves them in its cache."""
    home = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit, encoding="utf-8")
    return cache


def _vectors(seed: int, dimension: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    drawn = np.random.default_rng(seed).normal(size=(len(WORDS), dimension)).astype(np.float32)
    drawn[:2] = 0.0  # padding, and a word that is not known
    return drawn


def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    numbers = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=_SPECIAL[1]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer
