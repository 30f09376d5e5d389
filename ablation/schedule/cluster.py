"""A Ray cluster for one sweep: ours and local, or the user's; and what of it a trial gets."""

import atexit
import contextlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import ray

from ablation import cleanup
from ablation.cost.room import Request, Room
from ablation.errors import UserError
from ablation.host import usable_cpus

CONNECT_TIMEOUT = 10.0  # seconds
_AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")  # what they call themselves once they run


@contextmanager
def connect(address: str | None) -> Iterator[Path]:
    """A connection to the cluster at `address`, or to one of our own for the time of this sweep; a folder for Tune."""
    if address is not None:
        _check_address(address)
    temporary = _temporary_folder()
    options: dict[str, Any] = {"address": address}
    processes: list[psutil.Process] = []
    if address is None:
        _set_token(temporary / "token")
        slots = usable_cpus()  # Ray itself ignores affinity and some limits of containers
        options = {"address": "local", "num_cpus": slots, "include_dashboard": False, "_temp_dir": str(temporary)}
    try:
        _begin(options)
        processes = lifelines()
        yield temporary / "tune"
    finally:
        _disconnect(processes)
        shutil.rmtree(temporary, ignore_errors=True)


def _begin(options: dict[str, Any]) -> None:
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:  # Ray names no common base of what a slow or a full machine makes of it
        what = "start Ray" if options["address"] == "local" else f"reach a Ray cluster at {options['address']}"
        raise UserError(
            f"can't {what}: {str(error) or type(error).__name__}; `ablation doctor` looks for causes"
        ) from error


def _check_address(address: str) -> None:
    """Ray itself tries for minutes, and then ends the process.

    Raises:
        UserError: it is no address of a cluster, or nothing listens there.
    """
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 2**16) or "/" in host:
        raise UserError(
            f"--address {address}: should be HOST:PORT of a Ray cluster's head, or auto for one on this machine"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT).close()
    except OSError as error:
        raise UserError(f"can't reach a Ray cluster at {address}: {error}") from error


def _disconnect(processes: Sequence[psutil.Process]) -> None:
    """Leaves no process of ours behind, also where Ray has crashed: its own shutdown would wait for the dead."""
    if all(alive(process) for process in processes):
        ray.shutdown()
    else:
        atexit.unregister(ray._private.worker.shutdown)  # noqa: SLF001
    for process in psutil.wait_procs(psutil.Process().children(recursive=True), timeout=5)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def lifelines() -> list[psutil.Process]:
    """The processes of a cluster of our own without which nothing goes on; empty on another's cluster."""
    return [process for process in psutil.Process().children(recursive=True) if _is_vital(process)]


def _is_vital(process: psutil.Process) -> bool:
    """The head, the raylet and its agents: a raylet ends with any of them, and then Ray ends the driver."""
    try:
        command = process.cmdline()
    except psutil.Error:
        return False  # it has just ended, so it was a helper of the start
    agent = any(part.endswith(("dashboard/agent.py", "runtime_env/agent/main.py")) for part in command)
    return process.name() in ("raylet", "gcs_server") or agent or (command[:1] or [""])[0] in _AGENTS


def alive(process: psutil.Process) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _set_token(path: Path) -> None:
    """A token of this sweep's own; Ray would write one under the user's home, which may be read-only."""
    if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)


def _temporary_folder() -> Path:
    """A folder with a short path, since Ray's sockets allow 107 characters; removes those of killed sweeps."""
    for left in cleanup.ray_folders():
        with contextlib.suppress(OSError):
            left.remove()
    return Path(tempfile.mkdtemp(prefix=f"abl-{os.getpid()}-", dir=cleanup.RAY_PARENT))


def room() -> tuple[Room, set[str]]:
    """What the cluster's nodes have, all of it free; and the host names of those with a GPU."""
    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    found = [(node["Resources"].get("CPU", 0.0), int(node["Resources"].get("GPU", 0))) for node in nodes]
    return Room(found), {node["NodeManagerHostname"] for node, (_, gpus) in zip(nodes, found, strict=True) if gpus}


def check(room: Room, request: Request) -> None:
    """Whether a trial has a place on any node.

    Raises:
        UserError: not on any.
    """
    if not room.most(request):
        have = ", ".join(f"{node.cpus:g} CPUs and {len(node.gpus)} GPUs" for node in room.nodes)
        raise UserError(
            f"resources: a trial asks for {request.cpus:g} CPUs and {request.gpus:g} GPUs, but no node has that "
            f"(there {'is one' if len(room.nodes) == 1 else 'are'}: {have}); lower cpus_per_trial or gpus_per_trial"
        )
