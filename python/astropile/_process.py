"""The feed process: started by the client, tied to it by a socket without a name."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from . import _binary, _forks
from ._errors import FeedDiedError, FeedError, FeedKilledError, from_wire
from ._protocol import ATTACH, ERROR, HEADER, OPEN, OPENED, VERSION, Header, request

log = logging.getLogger("astropile")


@dataclass(frozen=True)
class Source:
    """One dataset of what a feed is asked to open."""

    root: str
    columns: tuple[str, ...] | None = None  # each a JSON object: "as", "name", and how it is changed on the way
    release: int = 0  # 0 is the latest
    release_id: str = ""  # where it is known
    selection: str = "{}"  # JSON: which rows
    share: float = 0.0  # of a mix

    def json(self) -> dict[str, Any]:
        """The source as the feed reads it."""
        return {
            "root": self.root,
            "columns": None if self.columns is None else [json.loads(c) for c in self.columns],
            "release": self.release,
            "release_id": self.release_id,
            "selection": json.loads(self.selection),
            "share": self.share,
        }


@dataclass(frozen=True)
class Spec:
    """What a feed is asked to open."""

    sources: tuple[Source, ...]
    threads: int  # 0 is the feed's default
    memory: int  # bytes; 0 is the feed's default
    slots: int  # 0 is the feed's default
    transport: str  # "auto" but in tests
    end: str = ""  # of a mix: never, first
    radius: float = 0.0  # of a match, arcsec

    @property
    def root(self) -> str:
        """The folders, for messages."""
        return ", ".join(s.root for s in self.sources)

    def pinned(self, releases: Sequence[tuple[int, str]]) -> Spec:
        """The same, but of certain releases (number and id): what a restarted feed or another process must open."""
        return replace(
            self,
            sources=tuple(
                replace(s, release=n, release_id=i) for s, (n, i) in zip(self.sources, releases, strict=True)
            ),
        )

    def json(self) -> dict[str, Any]:
        """The spec as the feed reads it."""
        return {
            "version": VERSION,
            "sources": [s.json() for s in self.sources],
            "mix": {"end": self.end} if self.end else None,
            "match": {"radius": self.radius} if self.radius else None,
            "threads": self.threads,
            "memory": self.memory,
            "slots": self.slots,
            "transport": self.transport,
        }


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
        try:
            self._control.sendall(request(OPEN, js=spec.json()))
            head = Header._make(HEADER.unpack(receive_exactly(self._control, HEADER.size)))
            body = json.loads(receive_exactly(self._control, head.body))
        except (OSError, FeedDiedError) as e:
            words = self.last_words() or str(e)
            killed = (self._process.returncode or 0) < 0
            kind = FeedKilledError if killed else FeedError
            raise kind(f"{self._named()} ended before it opened {spec.root}: {words}") from e
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


def start_feed(spec: Spec) -> Feed:
    """A feed of an open dataset. One that is killed while it opens is started again, once."""
    try:
        return Feed(spec)
    except FeedKilledError as e:
        log.warning("%s; starting it again", e)
        return Feed(spec)


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
