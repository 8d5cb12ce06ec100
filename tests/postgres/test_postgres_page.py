"""docs/stores/postgres.md: what it says is run, in its order, on a server of the test's own."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.conftest import missing
from tests.postgres_server import PACKAGE, NoServer, Server, running

PAGE = Path(__file__).parents[2] / "docs" / "stores" / "postgres.md"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def server() -> Iterator[Server]:
    made = running(PACKAGE)
    try:
        server = made.__enter__()
    except NoServer as error:
        missing(f"no PostgreSQL for the tests ({error})")
    yield server
    made.__exit__(None, None, None)


def test_the_page_works_from_an_empty_server_on(server: Server, tmp_path: Path) -> None:
    def here(text: str) -> str:
        """Put this server in the place of the page's."""
        for user in ("postgres", "app", "maker", "writer", "reader"):
            dsn = server.dsn_of("acme", user)
            text = text.replace(f"postgresql://{user}@localhost/acme?", f"{dsn}&")
            text = text.replace(f"postgresql://{user}@localhost/acme", dsn)
        return text

    namespace: dict[str, Any] = {}
    ran = []
    for language, where, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        ran.append(language)
        if language == "sql":
            with psycopg.connect(server.dsn_of(where.strip() or "postgres"), autocommit=True) as connection:
                connection.execute(text.encode())
        elif language == "python":
            exec(compile(here(text), str(PAGE), "exec"), namespace)  # noqa: S102 - a block of our own documentation
        elif language == "sh":
            path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
            environment = {**os.environ, "PATH": path}
            environment.pop("STACKROOM_EMBEDDER", None)
            subprocess.run(["sh", "-ec", here(text)], check=True, cwd=tmp_path, env=environment)  # noqa: S607 - as above
    assert {"sql", "python", "sh"} <= set(ran)
    for name in ("store", "locked", "loading", "plain"):
        namespace[name].close()
