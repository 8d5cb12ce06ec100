"""Which files of a folder are taken, and why the others are not."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from stackroom.indexing._walk import Walked, Wish, glob_matcher, walk


def walked(root: Path, **options: Any) -> Walked:
    given: dict[str, Any] = {"include": None, "exclude": [], "hidden": False, "follow_symlinks": False, **options}
    return walk(root, Wish({".txt", ".md"}, **given))


def names(found: Walked) -> list[str]:
    return [file.name for file in found.files]


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path, encoding="utf-8")


def test_files_come_in_the_order_of_their_paths_by_code_point(tmp_path: Path) -> None:
    make(tmp_path, "b.txt", "a/z.txt", "a.txt", "a-b.txt", "Z.txt", "é.txt", "a/b/c.md")
    assert names(walked(tmp_path)) == sorted(["b.txt", "a/z.txt", "a.txt", "a-b.txt", "Z.txt", "é.txt", "a/b/c.md"])


def test_suffixes_are_compared_in_lower_case_and_others_are_counted(tmp_path: Path) -> None:
    make(tmp_path, "a.TXT", "b.bin", "c", ".txt2")
    found = walked(tmp_path)
    assert (names(found), found.ignored) == (["a.TXT"], {"suffix": 2, "hidden": 1})


def test_hidden_files_and_directories_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    make(tmp_path, ".a.txt", ".d/b.txt", "c.txt")
    found = walked(tmp_path)
    assert (names(found), found.ignored) == (["c.txt"], {"hidden": 2})
    assert names(walked(tmp_path, hidden=True)) == [".a.txt", ".d/b.txt", "c.txt"]


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    make(root, "real/a.txt", "b.txt")
    make(tmp_path, "outside/secret.txt")
    (root / "again.txt").symlink_to(root / "b.txt")
    (root / "dir").symlink_to(root / "real")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "out.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (root / "broken.txt").symlink_to(root / "absent")
    (root / "real" / "loop").symlink_to(root)
    return root


def test_links_are_not_followed(linked: Path) -> None:
    found = walked(linked)
    assert (names(found), found.ignored) == (["b.txt", "real/a.txt"], {"symlink": 6})


def test_links_that_stay_inside_are_followed_each_real_file_once(linked: Path) -> None:
    found = walked(linked, follow_symlinks=True)
    assert names(found) == ["b.txt", "real/a.txt"]
    assert found.ignored == {"symlink": 6}


def test_hard_links_are_files_of_their_own(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    (tmp_path / "b.txt").hardlink_to(tmp_path / "a.txt")
    (tmp_path / "c.txt").symlink_to(tmp_path / "b.txt")
    found = walked(tmp_path, follow_symlinks=True)
    assert (names(found), found.ignored) == (["a.txt", "b.txt"], {"symlink": 1})


def test_a_link_to_a_hidden_directory_is_followed_under_its_own_name(tmp_path: Path) -> None:
    make(tmp_path, ".store/a.txt")
    (tmp_path / "shown").symlink_to(tmp_path / ".store")
    assert names(walked(tmp_path, follow_symlinks=True)) == ["shown/a.txt"]


def test_the_folder_itself_may_be_a_link(linked: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(linked)
    assert names(walked(tmp_path / "way", follow_symlinks=True)) == ["b.txt", "real/a.txt"]


@pytest.mark.parametrize(
    ("glob", "name", "matches"),
    [
        ("*.md", "a.md", True),
        ("*.md", "sub/a.md", True),
        ("*.md", "a.mdx", False),
        ("a?.md", "ab.md", True),
        ("[ab].md", "sub/b.md", True),
        ("[!ab].md", "b.md", False),
        ("docs/*.md", "docs/a.md", True),
        ("docs/*.md", "docs/sub/a.md", False),
        ("docs/*.md", "x/docs/a.md", False),
        ("docs/**/*.md", "docs/a.md", True),
        ("docs/**/*.md", "docs/x/y/a.md", True),
        ("**/a.md", "a.md", True),
        ("**/a.md", "x/a.md", True),
        ("**/a.md", "x/ba.md", False),
        ("./docs/a.md", "docs/a.md", True),
        ("docs/[ab].md", "docs/a.md", True),
        ("docs/[!a].md", "docs/a.md", False),
        ("docs/a?b", "docs/a/b", False),
        ("docs/(a).md", "docs/(a).md", True),
        ("docs/[.md", "docs/[.md", True),
        ("cafe\u0301/*", "café/x", True),
        ("docs/**", "docs/x/y", True),
    ],
)
def test_globs_match_names_or_with_a_slash_whole_paths(glob: str, name: str, *, matches: bool) -> None:
    assert glob_matcher(glob)(name) is matches


def test_include_and_exclude_choose_and_exclude_wins(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt", "c.md", "sub/a.txt")
    found = walked(tmp_path, include=["a.txt", "*.md"], exclude=["sub/*"])
    assert (names(found), found.ignored) == (["a.txt", "c.md"], {"excluded": 2})
    assert names(walked(tmp_path, include=[])) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    assert names(walked(tmp_path)) == []


def test_many_stars_take_no_time(tmp_path: Path) -> None:
    began = time.perf_counter()
    glob_matcher("x/" + "**/" * 12 + "*a*a*a*a*b")("x/" + "a/" * 60 + "a" * 60)
    assert time.perf_counter() - began < 5
    assert tmp_path.exists()


REGISTERS = [
    b"# The register of a Stackroom library. Stackroom keeps it; change nothing here by hand.\n\xff torn",
    b"format = 99\nlast_generation = 1\n",
]


@pytest.mark.parametrize("register", REGISTERS, ids=["torn", "newer"])
def test_a_directory_that_holds_a_library_is_left_out_and_counted(tmp_path: Path, register: bytes) -> None:
    make(tmp_path, "a.txt", "data/library/writer.md", "data/library/1/tenant/x.md", "data/b.txt")
    (tmp_path / "data" / "library" / "library.toml").write_bytes(register)
    found = walked(tmp_path)
    assert (names(found), found.ignored) == (["a.txt", "data/b.txt"], {"library": 1})
    within = walked(tmp_path / "data" / "library")
    assert (names(within), within.ignored) == ([], {"library": 1})


@pytest.mark.parametrize("text", ["", "books = 3\n", "[", "format = 1\n"])
def test_a_library_toml_of_something_else_is_no_library(tmp_path: Path, text: str) -> None:
    make(tmp_path, "city/a.txt")
    (tmp_path / "city" / "library.toml").write_text(text, encoding="utf-8")
    assert names(walked(tmp_path)) == ["city/a.txt"]
