"""Certifies every store that ships and writes the table of docs/stores/README.md: python benchmarks/certificates.py.

Each store is what the tests run on: see the page. It takes some ten minutes.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

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
ONLY = sys.argv[1] if len(sys.argv) > 1 else None


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
            "Qdrant": lambda: QdrantStore(qdrant),
            "Neo4j": lambda: Neo4jStore(driver, database="stackroom"),
            "LanceDB": lambda: LanceStore(directory / "lance"),
        }


def _left_open(store: MemoryStore) -> MemoryStore:
    store._is_closed = False  # noqa: SLF001 - what it holds ends with its closing, and every test closes its handle
    return store


def table(certificates: dict[str, Certificate]) -> str:
    """Return what was seen of each capability, a column a store, and how many tests said so."""
    rows = [["capability", *certificates], ["---"] * (len(certificates) + 1)]
    checks = {name: {check.capability: check for check in seen.capabilities} for name, seen in certificates.items()}
    capabilities = list(dict.fromkeys(name for of_store in checks.values() for name in of_store))
    rows += [[name, *(checks[store][name].seen for store in certificates)] for name in capabilities]
    rows.append(["tests passed", *(f"{seen.tests:,}" for seen in certificates.values())])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Certify, and write the table where the page has its place."""
    certificates = {}
    with stores() as openers:
        for name, opener in openers.items():
            certificates[name] = certify(opener, only=ONLY)
            print(name, f"{certificates[name].tests} tests, {certificates[name].seconds:.0f} s", flush=True)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table(certificates) + END + rest.partition(END)[2], encoding="utf-8")
    sys.exit(not all(seen.is_right for seen in certificates.values()))


if __name__ == "__main__":
    main()
