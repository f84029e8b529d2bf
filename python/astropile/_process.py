"""The feed process: started by the client, tied to it by a socket without a name."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import threading
import weakref
from dataclasses import dataclass, replace
from typing import IO, Any

from . import _binary, _forks
from ._errors import FeedDiedError, FeedError, from_wire
from ._protocol import ATTACH, ERROR, HEADER, OPEN, OPENED, VERSION, Header, request


@dataclass(frozen=True)
class Spec:
    """What a feed is asked to open."""

    root: str
    columns: tuple[tuple[str, str], ...] | None  # pairs of new name and name
    release: int  # 0 is the latest
    threads: int  # 0 is the feed's default
    memory: int  # bytes; 0 is the feed's default
    slots: int  # 0 is the feed's default
    transport: str  # "auto" but in tests

    def pinned(self, release: int) -> Spec:
        """The same, but of a certain release: what a restarted feed or another process must open."""
        return replace(self, release=release)


def receive_exactly(sock: socket.socket, n: int) -> bytearray:
    """Reads n bytes, or raises FeedDiedError."""
    buf = bytearray(n)
    view = memoryview(buf)
    while view:
        got = sock.recv_into(view, len(view), socket.MSG_WAITALL)
        if got == 0:
            raise FeedDiedError("the feed closed the connection")
        view = view[got:]
    return buf


def _log_file() -> IO[bytes]:
    """Where the feed's last words go; it has no name, so nothing of it is left."""
    try:
        return os.fdopen(os.memfd_create("astropile-feed-log", os.MFD_CLOEXEC), "w+b", buffering=0)
    except (OSError, AttributeError):
        return tempfile.TemporaryFile(buffering=0)


class Feed:
    """A running feed process with an open dataset. ``about`` is the feed's description of it."""

    def __init__(self, spec: Spec) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._program = _binary.find()
        self._log = _log_file()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with theirs:
                # A session of its own keeps Ctrl-C at the terminal from reaching the feed before the client is done.
                # The parent-death signal is not used: it comes when the starting thread ends, not the process.
                self._process = subprocess.Popen(
                    [self._program, "feed", "--fd", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._log,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError as e:
            self._control.close()
            self._log.close()
            raise FeedError(f"{self._named()} could not be started: {e}") from e
        self._end = weakref.finalize(self, _end, self.pid, self._control, self._process, self._log)
        self._end.atexit = False
        _forks.register(self)
        try:
            self.about: dict[str, Any] = self._open(spec)
        except BaseException:
            self._end()
            raise

    def _open(self, spec: Spec) -> dict[str, Any]:
        ask = {
            "version": VERSION,
            "root": spec.root,
            "columns": spec.columns,
            "release": spec.release,
            "threads": spec.threads,
            "memory": spec.memory,
            "slots": spec.slots,
            "transport": spec.transport,
        }
        try:
            self._control.sendall(request(OPEN, js=ask))
            head = Header._make(HEADER.unpack(receive_exactly(self._control, HEADER.size)))
            body = json.loads(receive_exactly(self._control, head.body))
        except (OSError, FeedDiedError) as e:
            raise FeedError(f"{self._named()} ended before it opened {spec.root}: {self.last_words() or e}") from e
        if head.type == ERROR:
            raise from_wire(body["kind"], body["text"])
        if head.type != OPENED or body["version"] != VERSION:
            raise FeedError(f"{self._named()} is of another version than the Python package; install both alike")
        return dict(body)

    def _named(self) -> str:
        """The program, for errors, and where it was named."""
        if self._program == os.environ.get("ASTROPILE_BIN"):
            return f"the program {self._program} (as ASTROPILE_BIN names it)"
        return f"the program {self._program}"

    def attach(self) -> tuple[socket.socket, socket.socket]:
        """A new session: its socket, and the socket on which slots are given back. Raises FeedDiedError."""
        session, a = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        credit_sock, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        credit_sock.setblocking(False)
        try:
            with a, b, self._lock:
                socket.send_fds(self._control, [request(ATTACH, fds=2)], [a.fileno(), b.fileno()], socket.MSG_NOSIGNAL)
        except OSError as e:
            session.close()
            credit_sock.close()
            raise FeedDiedError(str(e)) from e
        return session, credit_sock

    @property
    def process_id(self) -> int:
        """The process number of the feed."""
        return self._process.pid

    def last_words(self) -> str:
        """What the feed wrote before it died, the end of it, and how it ended."""
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            code = None
        try:
            size = os.fstat(self._log.fileno()).st_size
            text = os.pread(self._log.fileno(), 4096, max(0, size - 4096)).decode(errors="replace").strip()
        except (OSError, ValueError):
            text = ""
        how = "" if code is None else f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return "; ".join(x for x in (how, text) if x)

    def close(self) -> None:
        """Ends the process."""
        self._end()

    def after_fork_in_child(self) -> None:
        """The child's copy of the socket would keep the feed from seeing the end of its client."""
        self._end.detach()
        self._control.close()
        self._log.close()
        self._process.returncode = 0  # not this process's child: nothing to wait for


def _end(pid: int, control: socket.socket, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    if os.getpid() != pid:
        return
    control.close()
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    log.close()
