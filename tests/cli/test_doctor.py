"""`ablation doctor`: a line a finding, and an exit code that says whether all is well."""

import pytest

from ablation import doctor
from ablation.doctor import Check, Finding, Verdict
from tests.cli.conftest import Command


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.OK, 0), (Verdict.NOTE, 0), (Verdict.FIX, 1)])
def test_lines_and_exit_code(ablation: Command, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, code: int) -> None:
    monkeypatch.setattr(doctor, "CHECKS", {"x": Check(lambda _: [Finding("x", verdict, "so it is")])})
    ended = ablation("doctor")
    assert (ended.code, ended.out) == (code, f"{verdict.value:<4}  x: so it is\n")
