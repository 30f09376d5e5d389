"""Whole files that are no sweeps, kept as they might arrive: each says in its first lines what it should be told.

A line ``# expect LINE: MESSAGE`` gives the beginning of a message; there are to be as many messages as such lines.
"""

from itertools import takewhile
from pathlib import Path

import pytest

from ablation import sweep
from ablation.sweep import SweepErrors

FILES = sorted((Path(__file__).parent / "sweeps" / "malformed").glob("*.yaml"))
EXPECT = b"# expect "


def test_there_are_enough_of_them() -> None:
    assert len(FILES) >= 50


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_malformed_file_is_told_what_is_wrong_and_where(file: Path) -> None:
    header = takewhile(lambda line: line.startswith(EXPECT), file.read_bytes().splitlines())
    expected = [line.removeprefix(EXPECT).decode() for line in header]
    with pytest.raises(SweepErrors) as caught:
        sweep.load(file)
    told = [str(problem) for problem in caught.value.problems]
    assert len(told) == len(expected), told
    for message, start in zip(told, expected, strict=True):
        assert message.startswith(f"{file}:{start}")
