"""The message between dispatcher and worker: what goes in comes out, and what is damaged is refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.worker.envelope import Envelope, EnvelopeError, Record, decode, encode
from chronoweb.runtime.errors import ChronowebError

RECORD: Record = (bytes(range(16)), (7 << 32) + 1, 1_767_225_600_000_000)
INT64 = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.lists(st.tuples(st.binary(min_size=16, max_size=16), INT64, INT64), min_size=1, max_size=500)


@given(records=RECORDS, epoch=st.integers(0, 2**31))
def test_what_goes_in_comes_out(records: list[Record], epoch: int) -> None:
    body, headers = encode(records, epoch=epoch)
    assert decode(body, headers) == Envelope(records, epoch)


def test_the_bytes_are_these() -> None:
    """The format is between processes of different releases: it changes with its version only."""
    body, headers = encode([RECORD], epoch=7)
    assert body == bytes(range(16)) + struct.pack(">q", (7 << 32) + 1) + struct.pack(">q", 1_767_225_600_000_000)
    assert headers == {"v": "1", "epoch": "7"}


def test_500_executions_are_16_000_bytes() -> None:
    assert len(encode([RECORD] * 500, epoch=1)[0]) == 16_000


@pytest.mark.parametrize("version", [None, "", "0", "2", "1.0"])
def test_another_version_is_refused(version: str | None) -> None:
    body, headers = encode([RECORD], epoch=1)
    del headers["v"]
    with pytest.raises(EnvelopeError, match=r"version .* is unknown here; this process reads '1'"):
        decode(body, headers if version is None else {**headers, "v": version})


@pytest.mark.parametrize("cut", [0, 1, 16, 31, 33, 63])
def test_a_torn_body_is_refused(cut: int) -> None:
    body, headers = encode([RECORD, RECORD], epoch=1)
    with pytest.raises(EnvelopeError, match=f"{cut} bytes are not whole records of 32"):
        decode(body[:cut], headers)


@pytest.mark.parametrize("epoch", [None, "", "seven"])
def test_a_bad_epoch_is_refused(epoch: str | None) -> None:
    body, headers = encode([RECORD], epoch=1)
    del headers["epoch"]
    with pytest.raises(EnvelopeError, match="epoch"):
        decode(body, headers if epoch is None else {**headers, "epoch": epoch})


@pytest.mark.parametrize(
    "records",
    [[], [(b"short", 1, 1)], [(b"x" * 17, 1, 1)], [(b"x" * 16, 2**63, 1)], [(b"x" * 16, 1, -(2**63) - 1)]],
    ids=["none", "short id", "long id", "token beyond int64", "run_at beyond int64"],
)
def test_what_cannot_be_written_is_refused(records: list[Record]) -> None:
    with pytest.raises(EnvelopeError) as refusal:
        encode(records, epoch=1)
    assert isinstance(refusal.value, ChronowebError)
