"""OpenAIEmbedder against a server on loopback that speaks the protocol, faults included."""

from __future__ import annotations

import base64
import sys
import threading
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.embedders.embedding_server import Answer, Body, EmbeddingServer, numbers, right

from stackroom import EmbedderError, IndexingCancelled, Library, Scope, Source
from stackroom._cancel import CancelToken
from stackroom.embedders import Embedder, Fingerprint, OpenAIEmbedder, _openai_waiting
from stackroom.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sk-very-secret-key-0123456789"
BUSY = Answer(503, {"error": {"message": "busy"}}, {"Retry-After": "0"})


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    made = EmbeddingServer()
    yield made
    made.close()


@pytest.fixture
def embedder(server: EmbeddingServer) -> Iterator[OpenAIEmbedder]:
    made = OpenAIEmbedder("model", base_url=server.url, api_key=KEY, dimension=3)
    yield made
    made.close()


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Keep what would have been waited, and wait not at all."""
    seconds: list[float] = []
    monkeypatch.setattr(_openai_waiting, "pause", lambda time, _cancel: seconds.append(time))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return seconds


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def items(*pairs: tuple[Any, Any]) -> Answer:
    return Answer(200, {"data": [{"index": index, "embedding": embedding} for index, embedding in pairs]})


# What is sent


def test_a_request_holds_model_texts_format_and_key(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    assert embedder.embed_passages(("a", " b\n")).tolist() == [[1, 1, 1], [3, 1, 1]]
    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "model", "input": ["a", " b\n"], "encoding_format": "float", "dimensions": 3}


def test_one_text_is_a_list_of_one(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    assert embedder.embed_query("abc").tolist() == [3, 1, 1]
    assert server.asked[0].body["input"] == ["abc"]


@pytest.mark.parametrize("slash", ["", "/", "//"])
def test_a_trailing_slash_does_not_matter(server: EmbeddingServer, slash: str) -> None:
    OpenAIEmbedder("m", base_url=server.url + slash, dimension=3).embed_query("a")
    assert server.asked[0].path == "/v1/embeddings"


def test_without_a_key_another_server_gets_no_authorization(server: EmbeddingServer) -> None:
    OpenAIEmbedder("m", base_url=server.url, dimension=3).embed_query("a")
    assert "Authorization" not in server.asked[0].headers


def test_the_environments_key_is_taken(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    OpenAIEmbedder("m", base_url=server.url, dimension=3).embed_query("a")
    OpenAIEmbedder("m", base_url=server.url, dimension=3, api_key=KEY).embed_query("a")
    assert [asked.headers["Authorization"] for asked in server.asked] == [
        "Bearer sk-of-the-environment",
        f"Bearer {KEY}",
    ]


# Fingerprint and limits


@pytest.mark.parametrize(
    ("model", "dimension"),
    [("text-embedding-3-small", 1536), ("text-embedding-ada-002", 1536), ("text-embedding-3-large", 3072)],
)
def test_row_16_a_known_model_is_asked_without_dimensions(server: EmbeddingServer, model: str, dimension: int) -> None:
    server.answers.extend([lambda body: right(body, dimension), right])
    embedder = OpenAIEmbedder(model, base_url=server.url)
    assert (embedder.fingerprint, embedder.max_input_chars) == (Fingerprint(f"openai:{model}", dimension), 32_000)
    assert server.asked == []
    embedder.embed_query("a")
    assert "dimensions" not in server.asked[0].body
    shorter = OpenAIEmbedder(model, base_url=server.url, dimension=512)
    assert shorter.embed_query("a").shape == (512,)
    assert (shorter.fingerprint.dimension, server.asked[1].body["dimensions"]) == (512, 512)


def test_row_17_the_length_of_an_unknown_model_is_learned_from_one_request(server: EmbeddingServer) -> None:
    server.answers.extend([lambda body: right(body, 5)] * 2)
    embedder = OpenAIEmbedder("mine", base_url=server.url)
    for _ in range(2):
        assert embedder.fingerprint == Fingerprint("openai:mine", 5)
    assert len(server.asked) == 1
    assert embedder.max_input_chars is None


def test_limits_are_as_given(server: EmbeddingServer) -> None:
    usual = OpenAIEmbedder("m", base_url=server.url)
    assert (usual.max_batch, usual.max_concurrency, usual.provider) == (2048, 8, "openai")
    own = OpenAIEmbedder(
        "text-embedding-3-small", base_url=server.url, max_input_chars=7, max_batch=1, max_concurrency=2
    )
    assert (own.max_input_chars, own.max_batch, own.max_concurrency) == (7, 1, 2)


@pytest.mark.parametrize(
    "options",
    [
        *({"api_key": ""}, {"api_key": "  "}, {"api_key": "sk\nX-Evil: 1"}, {"api_key": "sk-é"}),
        *({"model": ""}, {"model": " "}, {"model": None}, {"attempts": 0}, {"attempts": True}, {"dimension": 0}),
        *(
            {"max_batch": 0},
            {"max_input_chars": -1},
            {"max_concurrency": 2.5},
            {"timeout": 0},
            {"timeout": float("inf")},
        ),
        *(
            {"base_url": "localhost:80"},
            {"base_url": "ftp://x"},
            {"base_url": "http://u:p@host"},
            {"base_url": "http://"},
        ),
        {"base_url": None},
    ],
    ids=str,
)
def test_row_18_what_cannot_be_is_refused_when_made(options: dict[str, Any]) -> None:
    given = {"model": "m", "base_url": "http://localhost:1", **options}
    with pytest.raises(ValueError, match=r".") as refused:
        OpenAIEmbedder(**given)
    for secret in ("u:p", "X-Evil"):
        assert secret not in str(refused.value)


def test_openais_own_server_needs_a_key() -> None:
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        OpenAIEmbedder("text-embedding-3-small")
    assert OpenAIEmbedder("text-embedding-3-small", api_key=KEY).fingerprint.dimension == 1536


# What is answered


def test_row_15_vectors_are_placed_by_their_index(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    server.answers.append(items((2, [3, 1, 1]), (0, [1, 1, 1]), (1, [2, 1, 1])))
    assert embedder.embed_passages(("a", "bb", "ccc"))[:, 0].tolist() == [1, 2, 3]


def test_without_indexes_the_order_given_counts(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    server.answers.append(Answer(200, {"data": [{"embedding": [2, 1, 1]}, {"embedding": [1, 1, 1]}]}))
    assert embedder.embed_passages(("a", "b"))[:, 0].tolist() == [2, 1]


def test_base64_is_read_as_well(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    written = base64.b64encode(np.array([1.5, -2, 3], "<f4").tobytes()).decode()
    server.answers.append(items((0, written)))
    assert embedder.embed_query("a").tolist() == [1.5, -2, 3]


@pytest.mark.parametrize(
    "answer",
    [
        items((0, [1, 1, 1])),
        items((0, [1, 1, 1]), (1, [1, 1, 1]), (2, [1, 1, 1])),
        items((0, [1, 1, 1]), (0, [1, 1, 1])),
        items((0, [1, 1, 1]), (2, [1, 1, 1])),
        items((0, [1, 1, 1]), (None, [1, 1, 1])),
        items((0, [1, 1, 1]), ("1", [1, 1, 1])),
        items((0, [1, 1, 1]), (True, [1, 1, 1])),
        items((0, [1, 1, 1]), (1.0, [1, 1, 1])),
        items((0, [1, 1, 1]), (-1, [1, 1, 1])),
        items((0, [1, 1, 1]), (1, [1, 1])),
        items((0, [1, 1, 1]), (1, None)),
        items((0, [1, 1, 1]), (1, "no base64!")),
        items((0, [1, 1, 1]), (1, "AAA=")),
        items((0, [1, 1, 1]), (1, [1, "1", 1])),
        items((0, [1, 1, 1]), (1, [1, True, 1])),
        items((0, [1, 1, 1]), (1, [[1, 1, 1]])),
        Answer(200, {"data": None}),
        Answer(200, {"data": [1, 2]}),
        Answer(200, {"vectors": []}),
        Answer(200, [1, 2]),
        Answer(200, b"<html>no JSON</html>"),
        Answer(200, b"[" * 100_000),
        Answer(301, b"", {"Location": "http://127.0.0.1:1/elsewhere"}),
        Answer(204, b""),
    ],
    ids=lambda answer: str(answer.body)[:60],
)
def test_an_answer_that_is_none_is_an_embedder_error_and_not_tried_again(
    embedder: OpenAIEmbedder, server: EmbeddingServer, answer: Answer
) -> None:
    server.answers.append(answer)
    with pytest.raises(EmbedderError) as raised:
        embedder.embed_passages(("a", "b"))
    assert not raised.value.retryable
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "embedding",
    [[1, 1], [1, 1, 1, 1], [], [1, float("nan"), 1], [1, float("inf"), 1], [1, 1e39, 1], [0, 0, 0], [1e-60, 0, 0]],
    ids=str,
)
def test_asked_directly_it_answers_nothing_that_the_door_refuses(
    embedder: OpenAIEmbedder, server: EmbeddingServer, embedding: list[float]
) -> None:
    server.answers += [items((0, embedding))] * 2
    with pytest.raises(EmbedderError):
        embedder.embed_passages(("a",))
    with pytest.raises(EmbedderError):
        embedder.embed_query("a")


@pytest.mark.parametrize("length", [0, 65_537])
def test_a_length_that_no_fingerprint_has_is_not_learned(server: EmbeddingServer, length: int) -> None:
    embedder = OpenAIEmbedder("model", base_url=server.url)
    server.answers.append(items((0, [1] * length)))
    with pytest.raises(EmbedderError, match=f"length {length}"):
        _ = embedder.fingerprint
    assert embedder.fingerprint == Fingerprint("openai:model", 3)


def test_a_library_refuses_vectors_of_another_length(server: EmbeddingServer) -> None:
    library = Library(MemoryStore(), "library", OpenAIEmbedder("m", base_url=server.url, dimension=3))
    server.answers.append(lambda body: right({"input": body["input"]}, 4))
    with pytest.raises(EmbedderError, match="dimension 3"):
        library.index_source(Source("s", "doc", "t", ["g"], ["a"]))
    library.index_source(Source("s", "doc", "t", ["g"], ["a"]))
    assert [hit.id for hit in library.search("a", scope=Scope("t", ["g"]), mode="dense")] == ["s#0"]


def test_tokens_are_added_up(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    embedder.embed_passages(("a", "b"))
    server.answers.append(Answer(200, {"data": [{"embedding": [1, 1, 1]}], "usage": {"total_tokens": "many"}}))
    embedder.embed_query("a")
    embedder.embed_query("a")
    assert embedder.tokens_used == 15
    assert isinstance(embedder, Embedder)


# What is tried again


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_row_19_a_busy_server_is_asked_again_after_the_time_it_names(
    embedder: OpenAIEmbedder, server: EmbeddingServer, waited: list[float], status: int
) -> None:
    server.answers.append(Answer(status, {}, {"Retry-After": "0"}))
    assert embedder.embed_query("a").tolist() == [1, 1, 1]
    assert (len(server.asked), waited) == (2, [0.0])


def test_a_connection_that_breaks_is_tried_again(
    embedder: OpenAIEmbedder, server: EmbeddingServer, waited: list[float]
) -> None:
    server.answers.append(Answer(None))
    assert embedder.embed_query("a").tolist() == [1, 1, 1]
    assert len(waited) == 1


def test_a_server_that_is_not_there_is_tried_again_then_an_error(server: EmbeddingServer, waited: list[float]) -> None:
    server.close()
    embedder = OpenAIEmbedder("m", base_url=server.url, dimension=3, attempts=3)
    with pytest.raises(EmbedderError, match="ConnectError") as raised:
        embedder.embed_query("a")
    assert (raised.value.status, raised.value.retryable, len(waited)) == (None, True, 2)


def test_a_server_that_is_too_slow_is_tried_again(server: EmbeddingServer, waited: list[float]) -> None:
    may_answer = threading.Event()

    def slow(body: Body) -> Answer:
        may_answer.wait(20)
        return right(body)

    server.answers.append(slow)
    embedder = OpenAIEmbedder("m", base_url=server.url, dimension=3, timeout=0.1)
    assert embedder.embed_query("a").tolist() == [1, 1, 1]
    may_answer.set()
    assert len(waited) == 1


@pytest.mark.parametrize("status", [300, 400, 401, 403, 404, 409, 413, 422, 501, 505])
def test_row_20_every_other_status_is_final(embedder: OpenAIEmbedder, server: EmbeddingServer, status: int) -> None:
    server.answers.append(Answer(status, {"error": {"message": "no such thing"}}))
    with pytest.raises(EmbedderError, match=f"{status}: no such thing") as raised:
        embedder.embed_query("a")
    assert (raised.value.status, raised.value.retryable, len(server.asked)) == (status, False, 1)


def test_a_spent_quota_is_final(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    server.answers.append(Answer(429, {"error": {"message": "pay", "code": "insufficient_quota"}}))
    with pytest.raises(EmbedderError, match="pay") as raised:
        embedder.embed_query("a")
    assert (raised.value.status, raised.value.retryable, len(server.asked)) == (429, False, 1)


def test_row_21_after_its_attempts_it_gives_up(server: EmbeddingServer) -> None:
    server.answers.extend([BUSY] * 9)
    embedder = OpenAIEmbedder("m", base_url=server.url, dimension=3, attempts=2)
    with pytest.raises(EmbedderError, match="503: busy") as raised:
        embedder.embed_query("a")
    assert (raised.value.status, raised.value.retryable, raised.value.retry_after) == (503, True, 0.0)
    assert len(server.asked) == 2


def test_a_time_beyond_a_minute_is_left_to_the_caller(
    embedder: OpenAIEmbedder, server: EmbeddingServer, waited: list[float]
) -> None:
    server.answers.append(Answer(429, {}, {"Retry-After": "61"}))
    with pytest.raises(EmbedderError) as raised:
        embedder.embed_query("a")
    assert (raised.value.retry_after, raised.value.retryable, waited, len(server.asked)) == (61.0, True, [], 1)


def test_a_date_is_a_time_as_well(embedder: OpenAIEmbedder, server: EmbeddingServer, waited: list[float]) -> None:
    moments = (datetime.now(UTC) + timedelta(seconds=30), datetime.now(UTC) - timedelta(hours=1))
    server.answers.extend(Answer(503, {}, {"Retry-After": format_datetime(moment, usegmt=True)}) for moment in moments)
    embedder.embed_query("a")
    assert 20 < waited[0] <= 30
    assert waited[1] == 0


@pytest.mark.parametrize("header", [None, "soon", "nan", "inf", ""])
def test_without_a_time_the_wait_doubles_from_a_quarter_second_to_eight(
    server: EmbeddingServer, waited: list[float], header: str | None
) -> None:
    server.answers.extend([Answer(503, {}, {} if header is None else {"Retry-After": header})] * 8)
    OpenAIEmbedder("m", base_url=server.url, dimension=3, attempts=9).embed_query("a")
    longest = [0.25, 0.5, 1, 2, 4, 8, 8, 8]
    assert all(most / 2 <= time <= most for time, most in zip(waited, longest, strict=True))


def test_a_cancelled_token_ends_it_before_the_next_attempt(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    token = CancelToken()

    def busy(_body: Body) -> Answer:
        token.cancel()
        return Answer(503, {}, {"Retry-After": "50"})

    server.answers.append(busy)
    with pytest.raises(IndexingCancelled):
        embedder.embed_passages(("a",), cancel=token)
    assert len(server.asked) == 1
    with pytest.raises(IndexingCancelled):
        embedder.embed_query("a", cancel=token)
    assert len(server.asked) == 1


def test_a_cancel_ends_a_wait_at_once(embedder: OpenAIEmbedder, server: EmbeddingServer) -> None:
    token, answered = CancelToken(), threading.Event()

    def busy(_body: Body) -> Answer:
        answered.set()
        return Answer(503, {}, {"Retry-After": "50"})

    server.answers.append(busy)

    def cancel_soon() -> None:
        answered.wait(20)
        token.cancel()

    threading.Thread(target=cancel_soon).start()
    begun = datetime.now(UTC)
    with pytest.raises(IndexingCancelled):
        embedder.embed_passages(("a",), cancel=token)
    assert datetime.now(UTC) - begun < timedelta(seconds=20)


# Secrets


def everything_about(error: BaseException) -> str:
    """Return all that a log with locals left out could show of an exception and what it leads to."""
    seen, shown = [error], []
    while seen:
        one = seen.pop()
        shown += [repr(one), str(one), repr(vars(one)), *traceback.format_exception(one)]
        seen += [other for other in (one.__cause__, one.__context__) if other is not None]
    return "\n".join(shown)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": f"Incorrect API key provided: {KEY}."}},
        {"error": f"no such key {KEY}"},
        {"detail": KEY},
        f"plain {KEY}".encode(),
        {"error": {"message": "x" * 190 + KEY}},
    ],
)
def test_row_22_the_key_shows_nowhere_also_when_the_server_repeats_it(
    embedder: OpenAIEmbedder, server: EmbeddingServer, body: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    server.answers.append(Answer(401, body))
    with pytest.raises(EmbedderError) as raised:
        embedder.embed_query("a")
    shown = everything_about(raised.value) + repr(embedder) + str(embedder) + caplog.text
    for part in (KEY, KEY[:12]):
        assert part not in shown
    assert len(str(raised.value)) < 260


def test_a_broken_connection_leads_to_no_request(server: EmbeddingServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    server.close()
    embedder = OpenAIEmbedder("m", base_url=server.url, dimension=3, attempts=1, api_key=KEY)
    with pytest.raises(EmbedderError) as raised:
        embedder.embed_query("a")
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert KEY not in everything_about(raised.value) + caplog.text


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize(("status", "reported"), [(200, None), (400, 400), (500, 500)])
def test_a_body_that_cannot_be_decoded_is_an_embedder_error_that_leads_to_no_request(
    server: EmbeddingServer, waited: list[float], encoding: str, status: int, reported: int | None
) -> None:
    embedder = OpenAIEmbedder("m", base_url=server.url, dimension=3, attempts=2, api_key=KEY)
    server.answers += [Answer(status, b"not so encoded", {"Content-Encoding": encoding})] * 2
    with pytest.raises(EmbedderError, match=f"answered {status} with a body") as raised:
        embedder.embed_query("a")
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)
    assert KEY not in everything_about(raised.value)
    assert (raised.value.status, raised.value.retryable) == (reported, status == 500)
    assert len(server.asked) == (2 if status == 500 else 1)
    assert len(waited) == len(server.asked) - 1


def test_the_servers_words_are_cut_and_lose_their_line_breaks(
    embedder: OpenAIEmbedder, server: EmbeddingServer
) -> None:
    server.answers.append(Answer(400, {"error": {"message": "one\ntwo \x1b[31m" + "x" * 1000}}))
    with pytest.raises(EmbedderError, match=r"400: one two \[31mx") as raised:
        embedder.embed_query("a")
    assert len(str(raised.value)) < 260


# The rest


def test_several_threads_share_one(embedder: OpenAIEmbedder) -> None:
    found: dict[int, list[float]] = {}

    def work(number: int) -> None:
        found[number] = embedder.embed_query("x" * number).tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: numbers("x" * number, 3) for number in range(1, 9)}
    assert embedder.tokens_used == 40


def test_it_works_on_after_closing(embedder: OpenAIEmbedder) -> None:
    embedder.embed_query("a")
    embedder.close()
    assert embedder.embed_query("a").tolist() == [1, 1, 1]


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=r'pip install "stackroom\[openai\]"'):
        OpenAIEmbedder("m", base_url="http://localhost:1")
