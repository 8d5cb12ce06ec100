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
            "self._set_scope({entry.source_id for entry in (*differing, *expiring)},",
            "self._set_scope({entry.source_id for entry in expiring},",
            "folder",
            "without_embedding",
        ),
        (
            "permissions do not wait for a file that can be indexed",
            "_folder_run",
            "ending = self._rest_rescoped(ending)",
            "pass",
            "folder_scopes",
            "not_indexed or budget",
        ),
        (
            "a run sets no groups of files that it was not asked for",
            "_folder_run",
            "self.walked.is_asked_for(name) and ",
            "",
            "folder_scopes",
            "another_call",
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
            "a library's own files are no sources",
            "_walk",
            "if _holds_library(directory):",
            "if False:",
            "walk",
            "holds_a_library",
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
            "a refused key is no text's fault",
            "_refusals",
            "error.status is None or error.status in _OF_A_TEXT",
            "True",
            "folder_faults",
            "no_texts_fault",
        ),
        (
            "a reason holds none of the text",
            "_refusals",
            'if not _quotes(words, " ".join(text.split())):',
            "if True:",
            "folder_faults",
            "repeats_the_text",
        ),
        (
            "the switch expects what was caught up",
            "_reembed",
            "swap(self.collection, self.name, expect=expect, expect_side=expect_side)",
            "swap(self.collection, self.name, expect_side=expect_side)",
            "reembed",
            "just_before_the_switch",
        ),
        (
            "the switch expects the side as it was filled",
            "_reembed",
            "swap(self.collection, self.name, expect=expect, expect_side=expect_side)",
            "swap(self.collection, self.name, expect=expect)",
            "reembed",
            "another_run_takes",
        ),
        (
            "what is left of a source without its first passage is taken from the side",
            "_reembed",
            "records = Reading(self.store, self.name).records(Exists(keys.TENANT))\n        return {",
            "records = Reading(self.store, self.name).records(Eq(keys.INDEX, 0))\n        return {",
            "reembed",
            "come_back and memory",
        ),
        ("PDFium bears one thread", "_pdf", "    with _PDFIUM:", "    if True:", "formats", "one_thread"),
        (
            "a folder opens and removes only what is as it was read",
            "_folder_run",
            "return And(Eq(keys.TENANT, tenant_id), Or(*each))",
            "return of_sources(tenant_id, sorted(heads))",
            "folder_races",
            "not_opened or not_pruned",
        ),
        ("a zip bomb", "_docx", "if len(unpacked) > MAX_UNPACKED:", "if False:", "formats", "zip_bomb"),
    )
)
