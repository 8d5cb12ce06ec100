"""Lexical: BM25 of the index analyser's terms, by the statistics of each record's own tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.filters import And, Eq, Filter, In
from stackroom.stores import CollectionSpec, LexicalQuery, Record, VectorStore
from stackroom.testing import strategies
from stackroom.testing._differential import explained, filled
from stackroom.testing._oracle import best_worded, judge_worded
from stackroom.testing._records import PAGE, ids, record, scores, source, tenant
from stackroom.testing._refusals import is_proven_refused, is_refused, unless_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from stackroom.stores import Match

FOXES = {"a": "red fox runs", "b": "red red hen", "c": "blue fox jumps high today"}

ANALYSED = [
    ("T1", "Q3's budget: 1,200 units", ["q3", "BUDGET", "200", "units!"], ["q3s", "1200"]),
    ("T2", "snake_case and kebab-case", ["snake", "case", "kebab"], ["snakecase"]),
    ("T3", "cafe\u0301 noir", ["café", "CAFÉ", "cafe\u0301"], ["cafe"]),
    ("T4", "İstanbul", ["istanbul", "ISTANBUL"], ["stanbul"]),
    ("T5", "STRASSE Straße", ["strasse", "straße"], ["stras"]),
    ("T6", "हिन्दी", ["हिन्दी"], ["हिन"]),
    ("T7", "東京2025年", ["東京", "東", "京", "2025", "年", "東京 年"], ["京東", "25"]),
    ("T8", "½ cup x² Ⅳ ①", ["1", "2", "x2", "iv"], ["x"]),
    ("T9", "a\u200bb a\u00adb", ["a", "b", "ab", "AB"], ["a\u200cx"]),
    ("T10", "Foo™ don’t", ["foo", "don", "t"], ["footm", "dont"]),
    ("T11", "ภาษา", ["ภา", "าษ", "ษา", "ภาษา"], ["ภษ"]),
]

ODD_QUERIES = [
    *(
        '"red',
        "'red'",
        "red*",
        "red AND",
        "red OR",
        "NOT red",
        "NEAR(red)",
        "(red",
        "red)",
        "-red",
        "+red",
        "red:red",
        "^red",
    ),
    *(
        "red\x00",
        "red\ud800",
        "red;--",
        "red & |",
        "{red}",
        "red\\",
        "%red%",
        "red\n\t",
        "\u202ered",
        "red <-> red",
        "red~2",
    ),
]

NO_QUERIES: list[Any] = ["red", None, 1, ["red"], {"text": "red"}]


@unless_refused("lexical")
class LexicalTests:
    """What holds of the best worded."""

    def test_lexical_row_l1_words_are_whole(self, shelf: Shelf) -> None:
        """Look at stemming: there is none."""
        shelf.put(record("a#0", "Chapters on the spring budget"))
        assert shelf.lexical("chapter") == []
        assert ids(shelf.lexical("CHAPTERS")) == ["a#0"]

    @pytest.mark.parametrize(("query", "expected"), [("京", ["a#0"]), ("京都", ["a#0"]), ("京に", [])])
    def test_lexical_row_l4_pieces_of_japanese_are_found(self, shelf: Shelf, query: str, expected: list[str]) -> None:
        """Look at the analyser: `stackroom.text.index_terms` for what is stored, `query_terms` for what is asked."""
        shelf.put(record("a#0", "私は東京都に住む"))
        assert ids(shelf.lexical(query)) == expected

    def test_lexical_row_l5_scores_are_bm25(self, shelf: Shelf) -> None:
        """Look at the formula: k1 1.2, b 0.75, length against 128 terms, idf with the 1 inside the logarithm."""
        _put_foxes(shelf)
        found = shelf.lexical("red")
        assert ids(found) == ["b#0", "a#0"]
        assert scores(found) == pytest.approx({"b#0": 0.890966, "a#0": 0.782691}, abs=1e-6)

    def test_lexical_row_l6_any_adds_up_and_all_needs_every_word(self, shelf: Shelf) -> None:
        """Look at how terms are combined: any sums what is there, all drops what lacks one."""
        _put_foxes(shelf)
        found = shelf.lexical("red fox")
        assert ids(found) == ["a#0", "b#0", "c#0"]
        assert scores(found) == pytest.approx({"a#0": 1.565382, "b#0": 0.890966, "c#0": 0.774447}, abs=1e-6)
        assert ids(shelf.lexical(LexicalQuery("red fox", match="all"))) == ["a#0"]
        assert shelf.lexical(LexicalQuery("red fox zebra", match="all")) == []

    def test_lexical_row_19_statistics_are_the_tenants_own(self, shelf: Shelf) -> None:
        """Look at N and n of the formula: counted in the record's tenant; others never move a score."""
        _put_foxes(shelf)
        before = scores(shelf.lexical("red fox", tenant()))
        shelf.put(*(record(f"s{number}#0", "red red fox", tenant="u") for number in range(20)))
        assert scores(shelf.lexical("red fox", tenant())) == before
        found = {match.id: match.score for match in shelf.lexical("red fox") if match.record.tenant_id == "t"}
        assert found == before

    def test_lexical_statistics_do_not_depend_on_the_filter(self, shelf: Shelf) -> None:
        """Look at N and n of the formula: whatever `where` says, all of the tenant's records count."""
        _put_foxes(shelf)
        before = scores(shelf.lexical("red"))
        for where in (source("a"), And(source("a"), Eq("index", 0)), And(tenant(), In("sourceId", ["a"]))):
            assert scores(shelf.lexical("red", where)) == {"a#0": before["a#0"]}

    def test_lexical_statistics_follow_every_write(self, shelf: Shelf) -> None:
        """Look at N and n after a delete, a replace and an update: as if the rest had been written alone."""
        _put_foxes(shelf)
        before = scores(shelf.lexical("red"))
        shelf.put(*(record(f"s{number}#0", "red") for number in range(9)))
        assert scores(shelf.lexical("red"))["a#0"] < before["a#0"]
        shelf.put(*(record(f"s{number}#0", "green") for number in range(3)))
        assert shelf.delete(In("sourceId", [f"s{number}" for number in range(9)])) == 9
        assert scores(shelf.lexical("red")) == before
        if not is_refused(shelf, "update"):
            shelf.update({"k": 1}, tenant())
            assert scores(shelf.lexical("red")) == before

    def test_lexical_equal_terms_tie_and_come_by_id(self, shelf: Shelf) -> None:
        """Look at ties: the same terms, in whatever order, score the same to the bit; the smaller ids stay."""
        texts = ["red fox", "fox red", "FOX, red", "Red-fox"]
        shelf.put(*(record(f"s{number}#0", texts[number % 4]) for number in reversed(range(12))))
        found = shelf.lexical("red fox", limit=4)
        assert ids(found) == ["s0#0", "s1#0", "s10#0", "s11#0"]
        assert len({match.score for match in found}) == 1

    def test_lexical_ties_of_one_id_come_by_tenant(self, shelf: Shelf) -> None:
        """Look at a query over several tenants: each with its own statistics, merged by score, id, tenant."""
        shelf.put(*(record(at, "red", tenant=owner) for at in ("b#0", "a#0") for owner in ("u", "t")))
        found = [(match.id, match.record.tenant_id) for match in shelf.lexical("red", limit=3)]
        assert found == [("a#0", "t"), ("a#0", "u"), ("b#0", "t")]

    def test_lexical_reads_what_its_filter_allows_and_nothing_else(self, shelf: Shelf) -> None:
        """Look at where the filter stands: three of 600 that hold the word are allowed, and all three are answered."""
        shelf.put(*(record(f"s{number}#0", "red red", aclGroups=["h"]) for number in range(597)))
        shelf.put(*(record(f"far{number}#0", f"{'pad ' * 50} red", aclGroups=["g"]) for number in range(3)))
        shelf.put(record("other#0", "red", aclGroups=["g"], tenant="u"))
        found = shelf.lexical("red", And(tenant(), In("aclGroups", ["g"])), limit=10)
        assert ids(found) == ["far0#0", "far1#0", "far2#0"]

    @pytest.mark.parametrize(("row", "text", "hits", "misses"), ANALYSED, ids=[row[0] for row in ANALYSED])
    def test_lexical_terms_are_those_of_the_analyser(
        self, shelf: Shelf, row: str, text: str, hits: list[str], misses: list[str]
    ) -> None:
        """Look at who cuts words: the core's analyser on both sides, and no tokenizer of the database."""
        del row
        shelf.put(record("a#0", text), record("b#0", "something else"))
        for query in (text, *hits):
            assert ids(shelf.lexical(LexicalQuery(query, match="all"))) == ["a#0"], query
        for query in misses:
            assert shelf.lexical(query) == [], query

    def test_lexical_index_holds_the_text_alone(self, shelf: Shelf) -> None:
        """Look at what is indexed: no title, tag, id or metadata."""
        shelf.put(record("red#0", "blue", title="red", tags=["red"], folderId="red", red="red", tenant="red"))
        assert shelf.lexical("red") == []

    @pytest.mark.parametrize("query", ["", " ", "\u200b", "!?… ™", "\u0301", "\ud800", "\x00"])
    def test_lexical_queries_without_terms_find_nothing(self, shelf: Shelf, query: str) -> None:
        """Look at empty queries: nothing is found, with any and with all."""
        shelf.put(record("a#0", "red"), record("b#0", ""))
        assert shelf.lexical(query) == []
        assert shelf.lexical(LexicalQuery(query, match="all")) == []

    @pytest.mark.parametrize("query", ODD_QUERIES)
    def test_lexical_queries_may_hold_any_character(self, shelf: Shelf, query: str) -> None:
        """Look at the engine's query syntax: none of it reaches the caller's text."""
        shelf.put(record("a#0", "red"), record("b#0", "blue"))
        assert ids(shelf.lexical(query)) == ["a#0"]

    def test_lexical_words_asked_twice_count_once(self, shelf: Shelf) -> None:
        """Look at the query's terms: each once."""
        _put_foxes(shelf)
        assert scores(shelf.lexical("red RED red")) == scores(shelf.lexical("red"))

    def test_lexical_queries_of_5000_terms_are_served(self, shelf: Shelf) -> None:
        """Look at limits on bound values: a query may have any number of terms."""
        shelf.put(record("a#0", "w4999"), record("b#0", " ".join(f"w{number}" for number in range(5_000))))
        query = " ".join(f"w{number}" for number in range(5_000))
        assert ids(shelf.lexical(query)) == ["b#0", "a#0"]
        assert ids(shelf.lexical(LexicalQuery(query, match="all"))) == ["b#0"]

    def test_lexical_terms_keep_their_first_128_characters(self, shelf: Shelf) -> None:
        """Look at long words: they are neither dropped nor an error; what is behind 128 characters does not count."""
        shelf.put(record("a#0", "x" * 200), record("b#0", "x" * 127))
        assert ids(shelf.lexical("x" * 128 + "y")) == ["a#0"]
        assert ids(shelf.lexical("x" * 127)) == ["b#0"]

    def test_lexical_records_of_a_large_text_are_found(self, shelf: Shelf) -> None:
        """Look at limits of the index on one record: a million words, and the last is found."""
        shelf.put(record("a#0", "lorem ipsum " * 100_000 + "needle"), record("b#0", "ipsum"))
        assert ids(shelf.lexical("needle")) == ["a#0"]
        judge_worded(
            shelf.lexical("lorem ipsum"), best_worded(shelf.state(), LexicalQuery("lorem ipsum"), tenant()), PAGE
        )

    @pytest.mark.parametrize("limit", [0, -1, True, 1.0, None])
    def test_lexical_refuses_what_is_no_limit(self, shelf: Shelf, limit: Any) -> None:
        """Look at the check of `limit`: an int of at least 1, and True is none."""
        with pytest.raises(ValueError, match=r"."):
            shelf.lexical("red", limit=limit)

    def test_lexical_random_answers_are_those_of_a_naive_bm25(
        self, store: VectorStore, unused: str, shelf: Shelf
    ) -> None:
        """Look at filter, score, order and cut together: the answer is the formula's, over index_terms."""
        del shelf
        check_words(store, f"{unused}.side", strategies.queries)


def _put_foxes(shelf: Shelf) -> None:
    shelf.put(*(record(f"{source_id}#0", text) for source_id, text in FOXES.items()))


def check_words(store: VectorStore, name: str, queries: st.SearchStrategy[LexicalQuery]) -> None:
    """Judge the answers to random queries over random records by the naive BM25."""
    store.create_collection(name, CollectionSpec(3, "m@3"))
    shelf = Shelf(store, name)

    @strategies.seeded(30)
    @given(
        sources=strategies.libraries(),
        asked=st.lists(
            st.tuples(
                queries,
                strategies.tenant_leaves | strategies.scopes | strategies.filters,
                st.sampled_from((1, 2, 3, 100)),
            ),
            min_size=1,
            max_size=6,
        ),
    )
    def agree(sources: list[list[Record]], asked: list[tuple[LexicalQuery, Filter, int]]) -> None:
        records = filled(shelf, sources)
        for query, where, limit in asked:

            def found(query: LexicalQuery = query, where: Filter = where, limit: int = limit) -> list[Match]:
                return shelf.lexical(query, where, limit)

            if is_proven_refused(shelf, where, found):
                continue
            got, expected = found(), best_worded(records, query, where)
            with explained(records, (query, where, limit), expected, got):
                judge_worded(got, expected, limit)

    agree()
