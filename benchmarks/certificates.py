"""Certifies every store that ships, or those named, and writes the table of docs/stores/README.md.

python benchmarks/certificates.py [STORE …]. Each store is what the tests run on, see the page; all take 15 minutes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import neo4j
from tests.arcade_server import running as arcade
from tests.postgres_server import PACKAGE
from tests.postgres_server import running as postgres
from tests.qdrant.edge_client import EdgeClient

from stackroom.auditing import certify
from stackroom.stores import (
    EmbeddedStore,
    LanceStore,
    MemoryStore,
    Neo4jStore,
    PostgresStore,
    QdrantStore,
    SqlStore,
    VectorStore,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom.auditing import Certificate

PAGE = ROOT / "docs" / "stores" / "README.md"
BEGIN, END = "<!-- begin: benchmarks/certificates.py -->\n", "<!-- end -->\n"
NAMED = sys.argv[1:]


@contextlib.contextmanager
def stores() -> Iterator[dict[str, Callable[[], VectorStore]]]:
    """Open what the stores need, and yield how each is opened."""
    with contextlib.ExitStack() as held:
        directory = Path(held.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        dsn = held.enter_context(postgres(PACKAGE)).dsn
        bolt = held.enter_context(arcade())
        driver = held.enter_context(neo4j.GraphDatabase.driver(bolt.url, auth=("root", bolt.password)))
        memory, qdrant = MemoryStore(), EdgeClient()
        held.callback(qdrant.close)
        yield {
            "memory": lambda: _left_open(memory),
            "embedded": lambda: EmbeddedStore(directory / "embedded"),
            "PostgreSQL": lambda: PostgresStore(dsn),
            "SQLite": lambda: SqlStore(f"sqlite:///{directory}/library.db"),
            "Qdrant": lambda: _in_process(QdrantStore(qdrant)),
            "Neo4j": lambda: Neo4jStore(driver, database="stackroom"),
            "LanceDB": lambda: LanceStore(directory / "lance"),
        }


def _in_process(store: QdrantStore) -> QdrantStore:
    """Claim nothing of a server's: the core in this process ends with it, and no other process reaches it."""
    store.capabilities = dataclasses.replace(store.capabilities, durable=False, shared=False)
    return store


def _left_open(store: MemoryStore) -> MemoryStore:
    store._is_closed = False  # noqa: SLF001 - what it holds ends with its closing, and every test closes its handle
    return store


Seen: TypeAlias = "dict[str, str]"
"""What was seen of each capability."""


def seen_by(certificate: Certificate) -> Seen:
    """Return what a certificate says, and how many tests said so."""
    seen: Seen = {check.capability: check.seen for check in certificate.capabilities}
    return {**seen, "tests passed": f"{certificate.tests:,}"}


def read(table: str) -> dict[str, Seen]:
    """Return what a table says of each store."""
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines() if line]
    if not rows:
        return {}
    return {store: {row[0]: row[at] for row in rows[2:]} for at, store in enumerate(rows[0][1:], 1)}


def written(stores: dict[str, Seen]) -> str:
    """Return a table, a column a store."""
    names = dict.fromkeys(name for seen in stores.values() for name in seen)
    rows = [["capability", *stores], ["---"] * (len(stores) + 1)]
    rows += [[name, *(seen.get(name, "") for seen in stores.values())] for name in names]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Certify, and write the table where the page has its place."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    known, are_right = read(old), True
    with stores() as openers:
        for name, opener in openers.items():
            if NAMED and name not in NAMED:
                continue
            certificate = certify(opener)
            known[name] = seen_by(certificate)
            are_right &= certificate.is_right
            print(name, f"{certificate.tests} tests, {certificate.seconds:.0f} s", flush=True)
        ordered = {name: known[name] for name in openers if name in known}
    PAGE.write_text(before + BEGIN + written(ordered) + END + after, encoding="utf-8")
    sys.exit(not are_right)


if __name__ == "__main__":
    main()
