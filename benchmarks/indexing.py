"""How fast a folder is indexed, planned anew and changed, and what memory that takes; beside LangChain's `index()`.

Prints a table. Each part runs in a process of its own, so that its peak of memory is its own. `--files` small text
files (20,000 unless said) are made from a seeded vocabulary, two to four paragraphs each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 20_000
CHANGED = 100
"""One file in so many is changed before the last run."""


def make_files(folder: Path, count: int, seed: int = 1) -> None:
    """Write `count` text files of two to four paragraphs of some 500 characters, in folders of 500."""
    random = np.random.default_rng(seed)
    vocabulary = np.array([_word(number) for number in range(WORDS)])
    shares = 1.0 / np.arange(1, WORDS + 1)
    for number in range(count):
        inside = folder / f"{number // 500:03}"
        inside.mkdir(parents=True, exist_ok=True)
        words = random.choice(vocabulary, size=(int(random.integers(2, 5)), 80), p=shares / shares.sum())
        paragraphs = [" ".join(paragraph) + "." for paragraph in words]
        (inside / f"{number:06}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")


def change_files(folder: Path) -> None:
    """Put a paragraph in front of one file in a hundred."""
    for file in sorted(folder.rglob("*.txt"))[::CHANGED]:
        file.write_text(f"A new paragraph, put in front.\n\n{file.read_text(encoding='utf-8')}", encoding="utf-8")


def _word(number: int) -> str:
    letters = "bcdfghklmnprstvz"
    return "".join(letters[number // 16**place % 16] + "aeiou"[(number + place) % 5] for place in range(4))


class Timed:
    """An embedder that adds up how long it takes."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_passages(self, texts: Any) -> Any:
        """Embed, and look at the clock before and after."""
        began = time.perf_counter()
        try:
            return self._embedder.embed_passages(texts)
        finally:
            self.seconds += time.perf_counter() - began

    def embed_query(self, text: str) -> Any:
        """Embed a query."""
        return self._embedder.embed_query(text)


def stackroom(folder: Path, place: Path, embedder: str) -> dict[str, Any]:
    """Index the folder into an embedded library and say what it took."""
    from stackroom import Library
    from stackroom.embedders import HashingEmbedder, LocalEmbedder
    from stackroom.indexing import index_folder

    timed = Timed(LocalEmbedder() if embedder == "local" else HashingEmbedder(256))
    with Library.open(place, embedder=timed) as library:
        timed.embed_query("warm up")
        began, cpu = time.perf_counter(), time.process_time()
        report = index_folder(library, folder, tenant_id="t", acl_groups=["g"], max_chars=600)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "passages": report.passages,
        "embedded": report.embedded,
        "unchanged": report.unchanged,
        "seconds": seconds,
        "cpu": cpu,
        "embedder": timed.seconds / seconds,
    }


def langchain(folder: Path, place: Path, kind: str) -> dict[str, Any]:
    """Do the same with LangChain: load, split, `index()` with a record manager in memory."""
    from langchain_core.documents import Document
    from langchain_core.indexing import InMemoryRecordManager, index
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    from stackroom.embedders import HashingEmbedder

    hashing = HashingEmbedder(256)

    class Adapter:
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            vectors: list[list[float]] = np.asarray(hashing.embed_passages(texts)).tolist()
            return vectors

        def embed_query(self, text: str) -> list[float]:
            vector: list[float] = np.asarray(hashing.embed_query(text)).tolist()
            return vector

    adapter: Any = Adapter()
    store: Any = InMemoryVectorStore(adapter)
    if kind == "chroma":
        from langchain_chroma import Chroma

        store = Chroma("bench", embedding_function=adapter, persist_directory=str(place))
    manager = InMemoryRecordManager("bench")
    manager.create_schema()
    splitter = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=150)

    def run() -> dict[str, Any]:
        began, cpu = time.perf_counter(), time.process_time()
        chunks = splitter.split_documents(
            Document(file.read_text(encoding="utf-8"), metadata={"source": str(file)})
            for file in sorted(folder.rglob("*.txt"))
        )
        index(
            chunks, manager, store, cleanup="incremental", source_id_key="source", key_encoder="sha256", batch_size=64
        )
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        return {"passages": len(chunks), "seconds": seconds, "cpu": cpu}

    return {**run(), "again": run()}


def measured(part: str, folder: Path, place: Path, detail: str) -> dict[str, Any]:
    """Run a part in a process of its own; return what it says and its peak of memory."""
    command = [sys.executable, __file__, "--part", part, "--folder", str(folder), "--place", str(place)]
    done = subprocess.run([*command, "--detail", detail], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_part(arguments: argparse.Namespace) -> None:
    """Be the process of a part."""
    part = {"stackroom": stackroom, "langchain": langchain}[arguments.part]
    found = part(arguments.folder, arguments.place, arguments.detail)
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


def row(name: str, found: dict[str, Any]) -> None:
    """Print a line of the table."""
    rate = found["passages"] / found["seconds"]
    cpu = f"{found['cpu']:.1f} | {found['passages'] / found['cpu']:,.0f}" if found.get("cpu") else " | "
    share = f"{found['embedder']:.0%}" if "embedder" in found else ""
    print(
        f"| {name} | {found['passages']:,} | {found['seconds']:.1f} | {rate:,.0f} | {cpu} | {share} | "
        f"{found['memory']:.0f} |"
    )


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rivals", action="store_true", help="beside LangChain, which must be installed")
    parser.add_argument("--part", choices=["stackroom", "langchain"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--place", type=Path)
    parser.add_argument("--detail", default="hashing")
    arguments = parser.parse_args()
    if arguments.part:
        run_part(arguments)
        return
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        folder = place / "files"
        make_files(folder, arguments.files)
        few = place / "few"
        make_files(few, min(arguments.files, 4000), seed=2)
        os.sync()
        print("| | passages | seconds | passages/s | CPU s | passages/CPU s | in the embedder | MB |")
        print("|---|---|---|---|---|---|---|---|")
        library = place / "library"
        row("index_folder, hashing", measured("stackroom", folder, library, "hashing"))
        row("again, unchanged", measured("stackroom", folder, library, "hashing"))
        change_files(folder)
        row(f"one file in {CHANGED} changed", measured("stackroom", folder, library, "hashing"))
        row("index_folder, LocalEmbedder", measured("stackroom", few, place / "local", "local"))
        for kind in ("memory", "chroma") if arguments.rivals else ():
            found = measured("langchain", folder, place / kind, kind)
            row(f"LangChain index(), {kind}", found)
            row(f"LangChain again, {kind}", {**found, **found["again"]})


if __name__ == "__main__":
    main()
