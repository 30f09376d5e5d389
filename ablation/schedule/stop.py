"""How a running sweep comes to an early end that loses nothing."""

import contextlib
import os
import secrets
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NoReturn, Self

import psutil
from ray import tune

from ablation.errors import INTERRUPTED
from ablation.ledger import Ledger

GRACE = 12.0  # seconds that running cells get to write a checkpoint
WATCH_INTERVAL = 1000.0  # milliseconds between two looks whether the sweep is over


class _Abort(BaseException):
    """Ends the sweep at once; no `except Exception` on the way may stop it."""


class Unsaved:
    """Tune pickles what it is given, for a restore that never comes; of these objects it gets an empty shell."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return object, ()


class Stop(Unsaved, tune.Stopper):
    """A request to stop: running cells save and the sweep ends within the grace.

    SIGINT and SIGTERM make one; a second signal ends the sweep at once.
    """

    def __init__(self, ledger: Ledger, tell: Callable[[str], None], lifelines: Sequence[psutil.Process]) -> None:
        """`tell` hears the reason. `lifelines` are processes whose death ends the sweep at once."""
        self.file = ledger.folder / f".stop-{secrets.token_hex(4)}"  # what the workers look at
        self.reason: str | None = None
        self.running: set[str] = set()
        self._awaited: set[str] = set()  # cells that were running when the stop was asked for
        self._tell = tell
        self._lifelines = lifelines
        self._over = threading.Event()
        self._aborted = False

    def request(self, reason: str) -> None:
        """Begins to stop; the first reason counts."""
        if self.reason is not None:
            return
        self.reason = reason
        self._awaited = set(self.running)
        with contextlib.suppress(OSError):  # on a full disk the grace ends the cells
            self.file.touch()
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        self._tell(f"{reason}; running cells save their state (Ctrl-C again stops at once)")

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._abort)
        threading.Thread(target=self._watch_lifelines, daemon=True).start()
        return self

    def _watch_lifelines(self) -> None:
        """Wakes as soon as one of them dies: a raylet outlives its agent by milliseconds, and the driver the raylet."""
        with contextlib.ExitStack() as stack:
            watched, pids = select.poll(), dict[int, int]()
            for process in self._lifelines:
                try:
                    file = os.pidfd_open(process.pid)
                except ProcessLookupError:
                    self._end_without_main_thread(process.pid)
                stack.callback(os.close, file)
                watched.register(file, select.POLLIN)
                pids[file] = process.pid
            while not self._over.is_set():
                dead = watched.poll(WATCH_INTERVAL)
                if dead and not self._over.is_set():
                    self._end_without_main_thread(pids[dead[0][0]])

    def _end_without_main_thread(self, dead: int) -> NoReturn:
        """The main thread may wait for the dead without an ear for signals, and Ray would then end the process.

        What is left of Ray goes first, since it would end this process as soon as it hears of the death.
        """
        for process in (*self._lifelines, *psutil.Process().children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._tell(f"Ray's process {dead} died; go on with: ablation resume {self.file.parent}")
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)
        sys.stdout.flush()
        os._exit(INTERRUPTED)

    def __exit__(self, *_: object) -> bool:
        self._over.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)
        return self._aborted  # what the interruption raised on its way out of Ray says nothing more

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None:
            self._abort(number, frame)
        self.request(f"stopped by {signal.Signals(number).name}")

    def _abort(self, _number: int, _frame: FrameType | None) -> None:
        self._aborted = True
        raise _Abort

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Tune's question whether to stop one trial: a trial stops itself."""
        return False

    def stop_all(self) -> bool:
        """Tune's question whether to start no more trials and end."""
        return self.reason is not None and not self._awaited & self.running
