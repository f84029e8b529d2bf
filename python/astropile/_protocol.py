"""Messages between the client and the feed (the other half is internal/feed/protocol.go).

Every message is a header of 64 little-endian bytes, then a body: JSON first, then plain bytes. Descriptors travel with
the first byte of the header.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

VERSION = 2

OPEN, ATTACH, STREAM, READ, MAP, SHARDS, STOP, STATE, CHOSEN = range(1, 10)
OPENED, BATCH, END, ERROR, TABLE, SHARD_ROWS, STATE_IS, ROWS = range(65, 73)

FLAG_LAST = 1
FLAG_INLINE = 2
FLAG_VALID = 4
FLAG_SOURCE = 8
FLAG_SLOTS_SHIFT = 16

CREDIT_RETIRE = 0x80

HEADER = struct.Struct("<IBBHIIQQQQQII")


class Header(NamedTuple):
    """The fixed part of a message."""

    body: int
    type: int
    fds: int
    slot: int
    seq: int
    layout: int
    rows: int
    used: int
    size: int
    epoch: int
    position: int
    flags: int
    json: int


def request(kind: int, seq: int = 0, js: dict[str, Any] | None = None, plain: bytes = b"", fds: int = 0) -> bytes:
    """A message to the feed, ready to send."""
    text = b"" if js is None else json.dumps(js).encode()
    head = HEADER.pack(len(text) + len(plain), kind, fds, 0, seq, 0, 0, 0, 0, 0, 0, 0, len(text))
    return head + text + plain
