"""The doctor: whether sweeps can run here, a finding a line. No check can stop another, whatever it breaks."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ablation.doctor import libraries, machine, trials
from ablation.doctor.finding import Finding, Place, Verdict, fix

__all__ = ["CHECKS", "Check", "Finding", "Place", "Verdict", "examine"]


@dataclass(frozen=True)
class Check:
    """A check and, where it runs in a process of its own, the seconds that it may take there."""

    run: Callable[[Place], Iterable[Finding]]
    limit: float | None = None


CHECKS = {
    "python": Check(machine.python),
    "torch": Check(libraries.torch_, limit=120),
    "torchvision": Check(libraries.torchvision_, limit=120),
    "compiler": Check(libraries.compiler, limit=120),
    "ray": Check(libraries.ray_, limit=180),
    "GPUs": Check(libraries.accelerators, limit=120),
    "cpus": Check(machine.cpus),
    "memory": Check(machine.memory),
    "shared memory": Check(machine.shared_memory),
    "open files": Check(machine.open_files),
    "disk": Check(machine.disk),
    "writing": Check(machine.writing),
    "sockets": Check(machine.socket_path),
    "datasets": Check(libraries.datasets, limit=120),
    "smoke sweep": Check(trials.smoke, limit=600),
    "resume": Check(trials.resume, limit=900),
}
ON_REQUEST = ("resume",)


def examine(place: Place, *, resume: bool = False) -> Iterator[Finding]:
    """All findings, each as soon as it is there."""
    for name, check in CHECKS.items():
        if resume or name not in ON_REQUEST:
            yield from findings(name, place) if check.limit is None else _apart(name, check.limit, place)


def findings(name: str, place: Place) -> list[Finding]:
    """What a check finds, in this process; an exception is a finding, too."""
    found: list[Finding] = []
    try:
        found.extend(CHECKS[name].run(place))
    except Exception as error:  # noqa: BLE001 - whatever breaks here would break a sweep
        text = " ".join(str(error).split())
        found.append(fix(name, f"{type(error).__name__}: {text[:300]}"))
    return found


def _apart(name: str, limit: float, place: Place) -> list[Finding]:
    """What a check finds in a process of its own, which may crash or hang."""
    with tempfile.TemporaryDirectory(prefix="ablation-doctor-") as folder:
        answer, said = Path(folder) / "answer", Path(folder) / "said"
        arguments = [name, str(place.results), str(place.data_root), str(answer)]
        with said.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "ablation.doctor", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                return [fix(name, f"not done after {limit:g} s")]
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with what it has started
                process.wait()
        try:
            return [Finding(**{**one, "verdict": Verdict(one["verdict"])}) for one in json.loads(answer.read_text())]
        except (OSError, ValueError):
            last = said.read_text(errors="replace").strip().splitlines()[-1:]
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            return [fix(name, ": ".join([f"its process was {how}" if code < 0 else f"its process {how}", *last]))]


def answer(name: str, results: str, data_root: str, file: str) -> None:
    """The other end of `_apart`."""
    found = findings(name, Place(Path(results), Path(data_root)))
    Path(file).write_text(json.dumps([asdict(finding) for finding in found]), encoding="utf-8")
