"""A session with the feed: requests out, batches in, slots back.

A slot is shared memory that the feed fills and the client maps. The first array on it, from ``np.frombuffer``, carries
a finalizer: every view, slice, torch tensor or buffer made from it keeps it alive, so the finalizer runs when the last
is gone. It may run in any thread and inside the collector: it takes no lock, and writes one byte to a socket.
"""

from __future__ import annotations

import array
import contextlib
import json
import mmap
import os
import socket
import weakref
from typing import Any, NamedTuple

import numpy as np

from . import _forks
from ._batch import Batch
from ._errors import FeedDiedError, FeedError, from_wire
from ._layout import Base, Plan
from ._process import Feed, receive_exactly
from ._protocol import (
    BATCH,
    CREDIT_RETIRE,
    ERROR,
    FLAG_INLINE,
    FLAG_LAST,
    FLAG_SLOTS_SHIFT,
    FLAG_SOURCE,
    FLAG_VALID,
    HEADER,
    STOP,
    Header,
    request,
)

# Below this many bytes a batch is copied: cheaper than a loan, and a small array kept for long does not hold a slot.
SMALL = 1 << 18

_ANCILLARY = socket.CMSG_SPACE(4 * 4)
_FLAGS = socket.MSG_WAITALL | socket.MSG_CMSG_CLOEXEC
_MADV_HUGEPAGE = 14
_MADV_POPULATE_WRITE = 23


class Reply(NamedTuple):
    """A message that answers a request, but for batches."""

    head: Header
    body: bytearray


class _Loans:
    """Which slots are with the caller. The finalizers hold it, so it outlives its session."""

    __slots__ = ("credit_sock", "lent", "pid", "retired")

    def __init__(self, credit_sock: socket.socket) -> None:
        self.credit_sock = credit_sock
        self.pid = os.getpid()
        self.lent: set[int] = set()
        self.retired: set[int] = set()

    def give_back(self, slot: int) -> None:
        if os.getpid() != self.pid:
            return  # a forked child drops its copy: the parent's loan goes on
        self.lent.discard(slot)
        credit = slot
        if slot in self.retired:
            self.retired.discard(slot)
            credit |= CREDIT_RETIRE
        # An error means that the feed is gone, and with it the slot.
        with contextlib.suppress(OSError):
            self.credit_sock.send(bytes((credit,)), socket.MSG_NOSIGNAL)

    def __del__(self) -> None:
        self.credit_sock.close()  # the session and its last loan are gone


class Session:
    """One connection to a feed. Used by one thread at a time; ``slots`` given back may come from any."""

    def __init__(self, feed: Feed, strings: str) -> None:
        self.feed = feed
        self.strings = strings
        self._sock, credit_sock = feed.attach()
        self._loans = _Loans(credit_sock)
        self._maps: dict[int, mmap.mmap] = {}
        self._fds: dict[int, int] = {}
        self._head = bytearray(HEADER.size)
        self._seq = 0
        self._plan: Plan | None = None
        self.copies = 0  # batches that were copied since slots ran short
        self._end = weakref.finalize(self, _close, self._loans.pid, self._sock, self._fds)
        self._end.atexit = False
        _forks.register(self)

    @property
    def alive(self) -> bool:
        """Whether the session may be used."""
        return self._end.alive

    def close(self) -> None:
        """Ends the session. Arrays on its slots stay valid."""
        self._end()
        self._maps.clear()

    def send(self, kind: int, js: dict[str, Any] | None = None, plain: bytes = b"") -> int:
        """Sends a request and gives its number. Raises FeedDiedError."""
        self._seq = (self._seq + 1) & 0xFFFFFFFF
        try:
            self._sock.sendall(request(kind, self._seq, js, plain), socket.MSG_NOSIGNAL)
        except OSError as e:
            self.close()
            raise FeedDiedError(str(e)) from e
        except BaseException:
            self.close()  # half a message may be out
            raise
        return self._seq

    def stop(self) -> None:
        """Ends the running stream. What it has sent already is dropped when the next answer is waited for."""
        if self.alive:
            with contextlib.suppress(FeedDiedError):
                self.send(STOP)

    def receive(self, seq: int) -> Batch | Reply:
        """Waits for the answer to a request: a batch, or any other message. Raises FeedDiedError, or the feed's error."""
        try:
            while True:
                got = self._receive(seq)
                if got is not None:
                    break
        except OSError as e:
            self.close()
            raise FeedDiedError(str(e)) from e
        except BaseException:
            self.close()  # the connection stands in the middle of a message
            raise
        if isinstance(got, Reply) and got.head.type == ERROR:
            error = _json(got.body)
            raise from_wire(error["kind"], error["text"])
        return got

    def _receive(self, seq: int) -> Batch | Reply | None:
        n, ancillary, _, _ = self._sock.recvmsg_into([self._head], _ANCILLARY, _FLAGS)
        fd = -1
        if ancillary:
            fd = _descriptor(ancillary)
        if n < HEADER.size:
            if n == 0:
                raise FeedDiedError("the feed closed the connection")
            self._head[n:] = receive_exactly(self._sock, HEADER.size - n)
        head = Header._make(HEADER.unpack(self._head))
        body = receive_exactly(self._sock, head.body) if head.body else bytearray()
        if head.type != BATCH:
            return Reply(head, body) if head.seq == seq else None
        return self._batch(head, body, fd, head.seq == seq)

    def _batch(self, head: Header, body: bytearray, fd: int, wanted: bool) -> Batch | None:
        if head.json:
            self._plan = Plan(bytes(body[: head.json]), self.strings)
        plan = self._plan
        if plan is None:
            raise FeedError("the feed sent a batch without a layout")
        base: Base
        if head.flags & FLAG_INLINE:
            base = np.empty(head.used, np.uint8)
            _receive_into(self._sock, base.data)
            if not wanted:
                return None
        else:
            slot = head.slot
            if fd >= 0:
                self._forget(slot)
                self._fds[slot] = fd
            map_ = self._maps.get(slot)
            if map_ is None or len(map_) < head.size:
                map_ = self._maps[slot] = _map(self._fds[slot], head.size)
            loans = self._loans
            if not wanted:
                loans.give_back(slot)
                return None
            base = np.frombuffer(map_, np.uint8, head.used)
            few = len(loans.lent) + 1 >= head.flags >> FLAG_SLOTS_SHIFT
            if few or head.used < SMALL:
                # One slot is never lent: a caller who keeps every batch gets copies of it, and the stream goes on.
                self.copies += few
                base = base.copy()
                loans.give_back(slot)
            else:
                loans.lent.add(slot)
                weakref.finalize(base, loans.give_back, slot).atexit = False
        values, lazy = plan.build(base)
        batch = Batch(plan.names, values, lazy, head.rows, head.epoch, head.position)
        batch.last = bool(head.flags & FLAG_LAST)
        at = head.json
        if head.flags & FLAG_VALID:
            batch.valid = np.frombuffer(body, np.bool_, head.rows, at)
            at += head.rows
        if head.flags & FLAG_SOURCE:
            batch.source = np.frombuffer(body, "<u2", head.rows, at)
        return batch

    def _forget(self, slot: int) -> None:
        self._maps.pop(slot, None)
        old = self._fds.pop(slot, None)
        if old is not None:
            os.close(old)

    def before_fork(self) -> None:
        """A child sees what is lent now for as long as it likes: the feed must not fill it again."""
        self._loans.retired |= self._loans.lent

    after_fork_in_parent = before_fork  # what another thread was lent in between

    def after_fork_in_child(self) -> None:
        """The session is the parent's."""
        self._end.detach()
        self._sock.close()
        self._loans.credit_sock.close()
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()
        self._maps.clear()


def _close(pid: int, sock: socket.socket, fds: dict[int, int]) -> None:
    if os.getpid() != pid:
        return
    sock.close()
    for fd in list(fds.values()):
        os.close(fd)
    fds.clear()


def _json(body: bytearray) -> dict[str, Any]:
    return dict(json.loads(body))


def _descriptor(ancillary: list[tuple[int, int, bytes]]) -> int:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    for extra in fds[1:]:
        os.close(extra)
    return fds[0] if fds else -1


def _receive_into(sock: socket.socket, view: memoryview) -> None:
    while view:
        got = sock.recv_into(view, len(view), socket.MSG_WAITALL)
        if got == 0:
            raise FeedDiedError("the feed closed the connection")
        view = view[got:]


def _map(fd: int, size: int) -> mmap.mmap:
    # Read and write: torch may work in place on a tensor that it thinks is its own, and must not crash.
    m = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    for advice in (_MADV_HUGEPAGE, _MADV_POPULATE_WRITE):
        with contextlib.suppress(OSError, ValueError):
            m.madvise(advice)
    return m
