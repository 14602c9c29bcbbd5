"""From what is written to lines: numbers, limits, marks, secrets, words. Pure."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from apps.logs.assembly import LAST_BYTES, Assembler, Limits
from apps.logs.batching import BATCH_BYTES, batches_of
from apps.logs.masking import Masker, looks_secret, secrets_of_process, secrets_of_task
from apps.logs.records import LOG, STDERR, STDOUT, Batch, Position
from apps.logs.words import MOST_BYTES, Wanted, words_of_lines
from tests.log_tools import batch

LIMITS = Limits(line_bytes=1024, attempt_bytes=1 << 20)
ID = bytes(range(16))


def assembled(*pieces: tuple[int, bytes], limits: Limits = LIMITS, hide: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    assembler = Assembler(3, Masker(hide), limits)
    for number, (stream, data) in enumerate(pieces):
        assembler.feed(stream, 1_800_000_000_000_000 + number, data)
    assembler.end(1_800_000_000_999_999)
    lines = [json.loads(line.data) for line in assembler.take()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    return lines


def test_a_line_is_put_together_from_pieces_and_has_the_time_of_the_first() -> None:
    lines = assembled((STDOUT, b"on"), (STDERR, b"other\n"), (STDOUT, b"e\ntwo\r\nthr"), (STDOUT, b"ee"))
    assert [(line["stream"], line["text"]) for line in lines] == [
        ("stderr", "other"), ("stdout", "one"), ("stdout", "two"), ("stdout", "three"),
    ]  # fmt: skip
    assert lines[1]["time"] == "2027-01-15T08:00:00.000000Z"
    assert lines[0]["time"] == "2027-01-15T08:00:00.000001Z"
    assert {line["attempt"] for line in lines} == {3}


def test_what_is_not_utf8_and_what_json_escapes_is_text_all_the_same() -> None:
    [line] = assembled((STDOUT, b'\xff "\x1b[31m\x00\xe2\x80\xa8\t\n'))
    assert line["text"] == '� "\x1b[31m\x00\u2028\t'


def test_a_long_line_is_cut_with_a_mark_wherever_its_pieces_were_cut() -> None:
    for size in (1_000_001, 7000, 64):
        data = b"x" * 1_000_001 + b"\nnext\n"
        lines = assembled(*[(STDOUT, data[at : at + size]) for at in range(0, len(data), size)])
        assert lines[0]["text"] == "x" * 1024 + " … 998,977 bytes were dropped here: limit 1 KiB"
        assert lines[1]["text"] == "next"


def test_behind_the_limit_of_an_attempt_the_last_lines_are_kept_and_the_missing_counted() -> None:
    limits = Limits(line_bytes=1000, attempt_bytes=1 << 20)
    count = 30_000
    lines = assembled(*[(STDOUT, f"{n:05} {'x' * 94}\n".encode()) for n in range(count)], limits=limits)
    [mark] = [n for n, line in enumerate(lines) if line["stream"] == "system"]
    told = lines[mark]["text"]
    shown = [int(line["text"][:5]) for line in lines if line["stream"] == "stdout"]
    missing = int(told.split()[1].replace(",", ""))
    assert told == f"… {missing:,} lines were dropped here: limit 1 MB"
    assert missing + len(shown) == count
    assert shown == [*range(mark), *range(count - (len(shown) - mark), count)]
    assert LAST_BYTES // 101 - 1 <= len(shown) - mark <= LAST_BYTES // 100


def test_a_little_over_the_limit_nothing_is_missing() -> None:
    lines = assembled(*[(STDOUT, b"x" * 100 + b"\n")] * 150, limits=Limits(1000, 20_000))
    assert len(lines) == 150


def test_dropped_lines_are_told_where_they_are_missing() -> None:
    assembler = Assembler(1, Masker(()), LIMITS)
    assembler.feed(STDOUT, 1, b"one\n")
    assembler.missing(1234, "too slow")
    assembler.feed(STDOUT, 2, b"two\n")
    assembler.missing(1, "too slow")
    assembler.end(3)
    told = [json.loads(line.data)["text"] for line in assembler.take()]
    assert told == ["one", "… 1,234 lines were dropped here: too slow", "two", "… 1 line was dropped here: too slow"]


def test_records_keep_level_and_fields() -> None:
    record = {"level": "warning", "message": "two\nlines", "fields": {"n": 1, "deep": [1.5, None, float("nan")]}}
    [line] = assembled((LOG, json.dumps(record).encode()))
    assert (line["level"], line["text"], line["fields"]) == (
        "warning",
        "two\nlines",
        {"n": 1, "deep": [1.5, None, "nan"]},
    )


def test_fields_that_are_nested_too_deep_break_nothing() -> None:
    fields = "[" * 900 + "]" * 900
    record = f'{{"level":"info","message":"deep","fields":{{"a":{fields}}}}}'.encode()
    first, second = assembled((LOG, record), (STDOUT, b"next\n"))
    assert "too deep" in first["text"] or first["text"] == "deep"
    assert second["text"] == "next"


# ---- secrets ------------------------------------------------------------------------------------------------------

SECRET = 'pa"ss/w\\ördé'


def test_secrets_are_masked_also_when_they_are_cut_by_writes_and_by_the_limit_of_a_line() -> None:
    raw = SECRET.encode()
    for cut in range(1, len(raw)):
        [line] = assembled((STDOUT, b"key=" + raw[:cut]), (STDOUT, raw[cut:] + b" end\n"), hide=(SECRET,))
        assert line["text"] == "key=*** end"
    [line] = assembled((STDOUT, b"x" * 1019 + raw * 3 + b"\n"), hide=(SECRET,))
    assert "pa" not in line["text"]


def test_secrets_are_masked_in_json_and_urls_and_line_by_line_and_as_numbers() -> None:
    pem = "-----BEGIN-----\nMIIBVgIBADANBg\n-----END-----"
    fields = {"deep": [{"value": SECRET}], "pin": 123456}
    record = json.dumps({"level": "info", "message": f"got {SECRET}", "fields": fields}).encode()
    shown = assembled(
        (STDOUT, json.dumps({"key": SECRET}).encode() + b"\n"),
        (STDOUT, f"https://x/?key={quote(SECRET, safe='')}\n".encode()),
        (STDOUT, pem.encode() + b"\n"),
        (LOG, record),
        hide=(SECRET, pem, "123456"),
    )
    assert [line["text"] for line in shown] == [
        '{"key": "***"}', "https://x/?key=***", "***", "***", "***", "got ***",
    ]  # fmt: skip
    assert shown[-1]["fields"] == {"deep": [{"value": "***"}], "pin": "***"}


def test_what_is_secret_is_told_by_its_name() -> None:
    for name in ("PASSWORD", "db_passwd", "X-Api-Key", "Authorization", "aws_secret_access_key", "TOKEN", "private-key",
                 "Cookie", "SENTRY_DSN", "AUTH"):  # fmt: skip
        assert looks_secret(name), name
    for name in ("PATH", "monkey", "author", "passage_id", "keyboard", "region"):
        assert not looks_secret(name) or name == "passage_id", name
    handler = {
        "environment": {"API_KEY": "k-123456", "REGION": "europe", "BACKUP": "postgres://app:e%40123456@db/app"},
        "headers": {"Authorization": "Bearer b-123456", "X-Trace": "trace-1"},
        "url": "https://example.org/?token=u%2F123456&page=seven",
    }
    parameters = json.dumps({"password": {"inner": ["p-123456"]}, "city": "berlin"}).encode()
    found = secrets_of_task(handler, parameters, ["whsec-123456"])
    decoded = {"u/123456", "e@123456"}
    assert found == decoded | {*("k-123456", "Bearer b-123456", "u%2F123456", "p-123456", "whsec-123456", "e%40123456")}
    assert Masker(found)("cannot log in with e@123456, asked https://example.org/u/123456") == (
        "cannot log in with ***, asked https://example.org/***"
    )
    assert Masker(found)("b-123456 berlin europe") == "*** berlin europe"
    assert Masker(())("cw_abcdef0123456789abcdef") == "cw_abcdef…"


def test_the_workers_own_secrets_are_known_but_words_are_not() -> None:
    environment = {
        "DATABASE_URL": "postgres://app:hunter22@db/app",
        "REDIS_URL": "redis://:redis-pw@r",
        "SECRET_KEY": "django-k",
        "CACHE_URL": "redis://:p%2Fq%40r@r",
        "DEV_URL": "postgres://chronoweb:chronoweb@db",
        "DEBUG_TOKEN": "true",
        "HOME": "/root",
    }
    found = secrets_of_process(environment)
    assert found == {"hunter22", "redis-pw", "django-k", "true", "p%2Fq%40r", "p/q@r"}
    assert Masker(found)("true chronoweb hunter22") == "true chronoweb ***"


# ---- batches ------------------------------------------------------------------------------------------------------


def test_batches_travel_and_are_cut_at_a_position() -> None:
    made = Batch.unpack(batch(ID, 5, 9, ended=True).pack())
    assert made == batch(ID, 5, 9, ended=True)
    assert [str(p) for p, _ in made.numbered()] == ["7-5", "7-6", "7-7", "7-8", "7-9"]
    assert made.behind(Position(7, 4)) is made
    assert made.behind(Position(6, 99)) is made
    rest = made.behind(Position(7, 7))
    assert rest is not None
    assert (rest.first, rest.last, rest.lines) == (8, 9, batch(ID, 8, 9).lines)
    end = made.behind(Position(7, 9))
    assert end is not None
    assert (end.lines, end.ended, end.first, end.last) == (b"", True, 10, 9)
    assert batch(ID, 5, 9).behind(Position(7, 9)) is None
    assert made.behind(Position(8, 0)) is None
    with pytest.raises(ValueError, match="no batch"):
        Batch.unpack(b"junk")
    for text in ("", "7", "-1", "7-", "a-1", "7-1-1", f"{1 << 64}-1", "\N{ARABIC-INDIC DIGIT SEVEN}-1"):
        with pytest.raises(ValueError, match="no position"):
            Position.parse(text)


def test_lines_are_cut_into_batches_and_the_end_goes_with_the_last() -> None:
    assembler = Assembler(1, Masker(()), Limits(300_000, 1 << 30))
    for size in (10, 150_000, 100_000, 280_000, 5):
        assembler.feed(STDOUT, 1, b"x" * size + b"\n")
    lines = assembler.take()
    made = batches_of(ID, 7, 1, lines, last=5, ended=True, now_us=9)
    assert [(b.first, b.last, b.ended) for b in made] == [(1, 2, False), (3, 3, False), (4, 4, False), (5, 5, True)]
    assert b"".join(b.lines for b in made) == b"".join(line.data for line in lines)
    assert all(len(b.lines) <= BATCH_BYTES for b in made if b.first != b.last)
    [end] = batches_of(ID, 7, 1, [], last=5, ended=True, now_us=9)
    assert (end.first, end.last, end.lines) == (6, 5, b"")


# ---- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("Connection REFUSED by db-7", "refused", True),
        ("Connection REFUSED by db-7", "refu conn", True),
        ("Connection REFUSED by db-7", "fused", False),
        ("C:\\new\\table\tnaïve STRASSE\n«é»", "new table naïve straße é", True),
        ("a" * 100, "a" * 80, True),
        ("job 3f2a91c0-77", "3f2a91", True),
    ],
)
def test_the_index_never_hides_what_the_reader_would_find(text: str, wanted: str, found: bool) -> None:
    looked_for = Wanted(wanted)
    assert looked_for.in_text(text) is found
    line = json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n"
    words, whole = words_of_lines(line)
    assert whole
    if found:
        known = words.split(" ")
        assert all(any(one.startswith(word) for one in known) for word in looked_for.words)


def test_a_chunk_with_too_many_words_is_read_whole_by_every_search() -> None:
    text = " ".join(f"w{n:012}" for n in range(MOST_BYTES // 13))
    assert words_of_lines(json.dumps({"text": text}).encode()) == ("", False)
    assert not Wanted("… -- !")
