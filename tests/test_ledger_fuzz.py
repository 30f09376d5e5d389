"""Record files with anything in them: a record that is whole, or quarantine, or the name of what can't be judged."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablation.errors import UserError
from ablation.ledger import Ledger
from ablation.record import History, Record, Status
from tests.cells import cell, record
from tests.fuzzing import fuzz

GOOD = [record(cell()), record(cell().baseline()), record(cell(seed=1), Status.DIVERGED)]
TEXTS = [each.model_dump_json(indent=1).encode() + b"\n" for each in GOOD]

odd = st.sampled_from(
    [
        "",
        "x",
        "é",
        "\0",
        "../../x",
        "<script>",
        "\x1b[31m",
        0,
        1,
        -1,
        True,
        False,
        None,
        0.5,
        1e308,
        10**25,
        -(2**63),
        2**64,
    ]
) | st.sampled_from([float("nan"), float("inf"), float("-inf")])  # json writes NaN and Infinity, which are no JSON
values = st.recursive(
    odd,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def paths(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of everything in JSON data."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from paths(value, (*path, key))


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A record with one of its values replaced, added or taken away."""
    data: Any = {"root": json.loads(draw(st.sampled_from(TEXTS)))}
    *way, last = draw(st.sampled_from(list(paths(data))[1:]))
    owner = data
    for key in way:
        owner = owner[key]
    action = draw(st.sampled_from(["replace", "add", "remove"]))
    if action == "remove" and way:
        del owner[last]
    elif action == "add" and isinstance(owner[last], dict):
        owner[last][draw(st.text(max_size=5))] = draw(values)
    else:
        owner[last] = draw(values)
    return json.dumps(data["root"]).encode()


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A record's text, cut or overwritten somewhere."""
    text = draw(st.sampled_from(TEXTS))
    start, length = draw(st.integers(0, len(text))), draw(st.integers(0, 40))
    return text[:start] + draw(st.binary(max_size=20)) + (text[start + length :] if draw(st.booleans()) else b"")


@st.composite
def repeated(draw: st.DrawFn) -> bytes:
    """A record with a key that stands twice."""
    text = draw(st.sampled_from(TEXTS))
    starts = [index for index, byte in enumerate(text) if byte == ord("{")]
    start = draw(st.sampled_from(starts)) + 1
    key = draw(st.sampled_from(["status", "id", "outcome", "name", "seed", "steps", "loss", "linear_top1"]))
    return text[:start] + f'"{key}": {json.dumps(draw(odd))},'.encode() + text[start:]


garbage = st.sampled_from(
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'"x"',
        b"1e999",
        b"\x80\x04\x95pickle",
        b"[" * 10_000,
        b'{"a":' * 10_000,
        b'{"schema_version": ' + b"9" * 10_000 + b"}",
        b'{"schema_version": 1, "attempts": ' + b"9" * 10_000 + b"}",
    ]
)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    made = Ledger(tmp_path_factory.mktemp("fuzz") / "sweep")
    made.create()
    made.put(GOOD[0], History())
    return made


def read(ledger: Ledger, cell_id: str) -> Record | str | None:
    """The record, or the message that refuses to judge it."""
    try:
        return ledger.get(cell_id)
    except UserError as error:
        return str(error)


@fuzz
@given(content=st.binary(max_size=300) | garbage | broken() | changed() | repeated(), of=st.sampled_from(GOOD))
def test_any_file_is_a_whole_record_or_put_away(ledger: Ledger, content: bytes, of: Record) -> None:
    shutil.rmtree(ledger.folder / "records")
    shutil.rmtree(ledger.folder / "quarantine", ignore_errors=True)
    path = ledger.folder / "records" / f"{of.id}.json"
    path.parent.mkdir()
    path.write_bytes(content)
    found = read(ledger, of.id)
    if isinstance(found, str):  # another version's: it stays, and the user is told which file it is
        assert found.startswith(f"{path}: ")
        assert "version" in found
        assert path.read_bytes() == content
        return
    if found is None:
        assert not path.exists()
        kept = [kept.read_bytes() for kept in (ledger.folder / "quarantine").glob("*.json")]
        assert kept == [content]
        assert ledger.records() == {}
        return
    assert found.cell.id == of.id  # parameters at their default may be left out
    ledger.put(found, History())  # whatever passed can be written, and read again
    assert ledger.records() == {of.id: found}


@fuzz
@given(content=st.binary(max_size=300) | garbage)
def test_any_history_is_read_or_counts_as_missing(ledger: Ledger, content: bytes) -> None:
    path = ledger.folder / "histories" / f"{GOOD[0].id}.json"
    path.write_bytes(content)
    assert isinstance(ledger.history(GOOD[0].id), History | None)
