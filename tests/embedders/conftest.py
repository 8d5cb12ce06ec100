"""A package that runs models, a tiny model of it in a folder, and its embedder; tests may ask for some of them only."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import missing
from tests.embedders import sentence_transformers_double as double
from tests.embedders.packages import DOUBLE, PACKAGES, SENTENCE_TRANSFORMERS, Package

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module", params=list(PACKAGES))
def package(request: pytest.FixtureRequest) -> Iterator[Package]:
    found = PACKAGES[request.param]
    with pytest.MonkeyPatch.context() as patch:
        if found is DOUBLE:
            patch.setitem(sys.modules, found.module, double.package())
        elif importlib.util.find_spec(found.module) is None:
            if found is SENTENCE_TRANSFORMERS:
                pytest.skip("sentence-transformers (large: it brings PyTorch) is not installed; its double was tested")
            missing(f"the package {found.module} is not installed: pip install '.[dev]'")
        yield found


@pytest.fixture(scope="module")
def folder(package: Package, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package.save(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def embedder(package: Package, folder: Path) -> Any:
    return package.embedder(folder, **package.options)
