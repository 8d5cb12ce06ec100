"""Guards of bulk indexing."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

BULK: Final = tuple(
    Guard(name, f"stackroom.indexing.{module}", text, instead, (f"tests/indexing/test_{tests}.py", "-k", pattern))
    for name, module, text, instead, tests, pattern in (
        (
            "a folder touches its own sources only",
            "_plan",
            "if head is not None and not head.belongs_to(self.corpus):",
            "if False:",
            "folder_upkeep",
            "from_elsewhere",
        ),
        (
            "what a folder owns it has written",
            "_stored",
            "keys.SETTINGS in self.metadata and ",
            "",
            "folder_upkeep",
            "calls_itself",
        ),
        (
            "nothing is pruned below what cannot be listed",
            "_folder_run",
            "return not is_there and not self.walked.is_hidden_from(name)",
            "return not is_there",
            "folder_upkeep",
            "cannot_be_listed",
        ),
        (
            "nothing is pruned whose name is spelled in another normal form",
            "_walk",
            'or self._is_spelled(root, name.split("/"))',
            "",
            "folder_upkeep",
            "another_normal_form",
        ),
        (
            "nothing is pruned that cannot be looked for",
            "_walk",
            "        except OSError:\n            return True",
            "        except OSError:\n            return False",
            "folder_upkeep",
            "hidden_directory_that_cannot or cannot_be_told",
        ),
        (
            "nothing is pruned when no file can be loaded",
            "_folder_run",
            "if not self.prune or not self.walked.has_loadable:",
            "if not self.prune:",
            "folder_upkeep",
            "no_file_to_load",
        ),
        (
            "permissions never wait for a change of content",
            "_folder_run",
            "ids = sorted({entry.source_id for entry in (*differing, *expiring)})",
            "ids = sorted({entry.source_id for entry in expiring})",
            "folder",
            "without_embedding",
        ),
        (
            "no link leads outside",
            "_walk",
            "or not target.is_relative_to(real_root) ",
            "",
            "walk",
            "stay_inside",
        ),
        (
            "no call starts after a failure",
            "_calls",
            "            if self.has_stopped:\n                raise Stopped\n",
            "",
            "calls",
            "not_made_after",
        ),
        (
            "the switch expects what was caught up",
            "_reembed",
            "self.side.name, expect=versions)",
            "self.side.name)",
            "reembed",
            "just_before_the_switch",
        ),
        (
            "elements of a document are bounded",
            "_docx",
            "if self.count > MAX_ELEMENTS or self.depth > MAX_DEPTH:",
            "if False:",
            "formats",
            "more_elements",
        ),
        (
            "passages of a source are bounded",
            "_loaders",
            "if len(found) > MAX_PASSAGES:",
            "if False:",
            "formats",
            "more_passages",
        ),
        ("PDFium bears one thread", "_pdf", "    with _PDFIUM:", "    if True:", "formats", "one_thread"),
        ("a zip bomb", "_docx", "if unpacked > MAX_UNPACKED:", "if False:", "formats", "zip_bomb"),
    )
)
