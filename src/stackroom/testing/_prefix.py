"""Prefix: a stored term matches when it begins with the query's, and the best of them counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stackroom.filters import Eq
from stackroom.stores import LexicalQuery, VectorStore
from stackroom.testing import strategies
from stackroom.testing._lexical import FOXES, check_words
from stackroom.testing._oracle import best_worded, judge_worded
from stackroom.testing._records import PAGE, ids, record, scores, tenant
from stackroom.testing._refusals import unless_refused

if TYPE_CHECKING:
    from stackroom.testing._shelf import Shelf

CASES = [
    ("L1", "Chapters on the spring budget", "chapter", True),
    ("L2", "sales in spring", "Q3's", False),
    ("L3", "sales in spring", "s", True),
    ("one unit beside a longer term", "sales in spring", "s xyz", False),
    ("one unit beside another", "sales in spring", "x s", True),
    ("one unit with its marks", "e\u0301te\u0301", "e\u0301", True),
    ("one unit of a script without spaces", "東京 sales", "東 s", True),
    ("a pair is a longer term", "東京 sales", "京都 s", False),
    ("a script without spaces does not expand", "東京都", "京東", False),
    ("nor does a unit of one, beside which nothing is longer", "Ａ東京", "京", True),
    ("the whole term", "sales", "sales", True),
    ("longer than the term", "sales", "salesman", False),
    ("the end of a term", "sales", "ales", False),
    ("a digit", "1,200 units", "20", True),
    ("case and width", "ＳＡＬＥＳ", "sAl", True),
    ("characters of the engine's syntax", "sales", "sal% ", True),
    ("a star is no wildcard", "sales", "*les", False),
    ("128 characters", "x" * 140, "x" * 130, True),
]


@unless_refused("prefix")
class PrefixTests:
    """What holds of queries with `prefix=True`."""

    @pytest.mark.parametrize(("case", "text", "query", "is_found"), CASES, ids=[case[0] for case in CASES])
    def test_prefix_rows_l1_to_l3_and_their_like(
        self, shelf: Shelf, case: str, text: str, query: str, *, is_found: bool
    ) -> None:
        """Look at which terms expand: `stackroom.text.expanding_terms` says so; and at wildcards in the query."""
        del case
        shelf.put(record("a#0", text))
        assert ids(shelf.lexical(LexicalQuery(query, prefix=True))) == (["a#0"] if is_found else [])

    def test_prefix_row_l7_all_needs_an_expansion_of_every_word(self, shelf: Shelf) -> None:
        """Look at `match` with expansions: any of one word, all of each."""
        shelf.put(*(record(f"{source_id}#0", text) for source_id, text in FOXES.items()))
        assert sorted(ids(shelf.lexical(LexicalQuery("re jum", prefix=True)))) == ["a#0", "b#0", "c#0"]
        assert shelf.lexical(LexicalQuery("re jum", match="all", prefix=True)) == []
        assert ids(shelf.lexical(LexicalQuery("bl jum", match="all", prefix=True))) == ["c#0"]

    def test_prefix_off_matches_whole_terms_alone(self, shelf: Shelf) -> None:
        """Look at `prefix` of the query: off by default."""
        shelf.put(record("a#0", "chapters"))
        assert shelf.lexical(LexicalQuery("chapter")) == []

    def test_prefix_scores_the_best_expansion_with_its_own_idf(self, shelf: Shelf) -> None:
        """Look at a passage with several expansions: the best one's score, not their sum; idf of each its own."""
        texts = ["rare rash", "rash rash rash", "rash", "rarer", "none"]
        shelf.put(*(record(f"s{at}#0", text) for at, text in enumerate(texts)))
        query = LexicalQuery("ra", prefix=True)
        judge_worded(shelf.lexical(query), best_worded(shelf.state(), query, tenant()), PAGE)
        expanded, whole = scores(shelf.lexical(query))["s0#0"], scores(shelf.lexical("rare"))["s0#0"]
        assert expanded == pytest.approx(whole, rel=1e-6)

    def test_prefix_expansions_of_other_tenants_and_removed_records_do_not_count(self, shelf: Shelf) -> None:
        """Look at the vocabulary: the tenant's own, and of what is stored now."""
        shelf.put(record("a#0", "sales"), record("b#0", "salary"), record("c#0", "salt", tenant="u"))
        assert shelf.delete(Eq("sourceId", "b")) == 1
        found = shelf.lexical(LexicalQuery("sal", prefix=True), tenant())
        judge_worded(found, best_worded(shelf.state(), LexicalQuery("sales"), tenant()), PAGE)

    def test_prefix_of_many_expansions_finds_them_all(self, shelf: Shelf) -> None:
        """Look at a cap on expansions: there is none."""
        shelf.put(*(record(f"s{number}#0", f"pre{number}") for number in range(1_200)))
        assert len(shelf.lexical(LexicalQuery("pre", prefix=True))) == 1_200

    def test_prefix_random_answers_are_those_of_a_naive_bm25(
        self, store: VectorStore, unused: str, shelf: Shelf
    ) -> None:
        """Look at expansion, score, order and cut together: the answer is the formula's, over index_terms."""
        del shelf
        check_words(store, f"{unused}.side", strategies.prefix_queries)
