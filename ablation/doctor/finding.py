"""What a check finds."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Verdict(StrEnum):
    """How a finding bears on sweeps here."""

    OK = "ok"
    NOTE = "note"  # sweeps run, less well or not all of them
    FIX = "FIX"  # sweeps fail


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: the text says what is so and, where that is not well, what to do."""

    name: str
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class Place:
    """Where sweeps would run: the folder of results and the folder of dataset files."""

    results: Path
    data_root: Path


def ok(name: str, text: str) -> Finding:
    """All is well."""
    return Finding(name, Verdict.OK, text)


def note(name: str, text: str) -> Finding:
    """Worth knowing."""
    return Finding(name, Verdict.NOTE, text)


def fix(name: str, text: str) -> Finding:
    """To be mended before a sweep."""
    return Finding(name, Verdict.FIX, text)
