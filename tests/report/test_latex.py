"""Every LaTeX table of a report compiles in a minimal document with booktabs. Skipped aloud without pdflatex."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ablation import report
from ablation.record import Status
from tests.report.synthetic import by_id, history_of, plan_of, record_of, records_of


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_every_table_compiles(tmp_path: Path) -> None:
    plan = plan_of(
        losses=("infonce", r"a_b & 50 % {x} \input{y} $z$ #1 ~^<>|\"[c]"), batch_sizes=(8, 128), seeds=2,
        temperature=(0.1, 0.5), report={"equivalence_margin": 0.01},
    )  # fmt: skip
    records = records_of(plan, lambda _loss, b, s: 0.9 + b / 4000 + s / 100)
    records |= by_id([record_of(plan.cells[0].cell, status=Status.OOM, message=r"CUDA \n 100 %_#")])
    report.write(plan, records, tmp_path, history_of)
    tables = sorted((tmp_path / "report/tables").glob("*.tex"))
    assert len(tables) > 10
    preamble = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs}\begin{document}"
    body = "\n".join(rf"\input{{{table.name}}}\clearpage" for table in tables)
    (tables[0].parent / "all.tex").write_text(f"{preamble}\n{body}\n\\end{{document}}\n")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"], cwd=tables[0].parent,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in done.stdout
