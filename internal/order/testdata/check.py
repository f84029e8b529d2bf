"""A second reading of "order 1": recomputes vectors.json in plain Python, slowly and straight from the definition."""

import hashlib
import json
import os
from bisect import bisect_right
from itertools import accumulate, count
from math import floor, gcd

M = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & M
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & M
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & M
    return x ^ x >> 31


def key_of(seed, epoch):
    return int.from_bytes(
        hashlib.sha256(b"order1" + seed.to_bytes(8, "little") + epoch.to_bytes(8, "little")).digest()[:8], "little"
    )


_memo = {}


def prp(key, tag, a, b, m):
    """The permutation of [0, m) as a function."""
    sub = mix(mix(mix(key ^ tag) ^ a) ^ b)
    if (sub, m) in _memo:
        return _memo[sub, m]
    if m <= 65536:
        table, s = list(range(m)), sub
        for i in range(m - 1, 0, -1):
            j = mix(s) * (i + 1) >> 64
            s = (s + 0x9E3779B97F4A7C15) & M
            table[i], table[j] = table[j], table[i]
        f = table.__getitem__
    else:
        w = max(2, (m - 1).bit_length())
        low = w // 2
        ks = [mix((sub + i * 0xD1342543DE82EF95) & M) for i in range(8)]

        def f(x):
            while True:
                lo, hi = x & (1 << low) - 1, x >> low
                for i, k in enumerate(ks):
                    if i % 2 == 0:
                        hi ^= mix(lo ^ k) >> 7 & (1 << w - low) - 1
                    else:
                        lo ^= mix(hi ^ k) >> 7 & (1 << low) - 1
                x = hi << low | lo
                if x < m:
                    return x

    _memo[sub, m] = f
    return f


def order(v):
    """position -> [shard, row]"""
    c, n, L, K = v["counts"] * v["repeat"], v["block"], v["lanes"], v["window"]
    N = sum(c)
    if v["shuffle"] == "off":
        ends = list(accumulate(c))
        return N, lambda p: [s := bisect_right(ends, p), p - (ends[s] - c[s])]
    key = key_of(v["seed"], v["epoch"])
    full, dust = list(accumulate(x // n for x in c)), list(accumulate(x % n for x in c))
    B = -(-N // n)
    r = N - n * (B - 1)
    blocks = prp(key, 1, 0, 0, B)
    slots = sorted(range(B), key=blocks) if B <= 65536 else None
    t = slots[B - 1] if slots else next(x for x in range(B) if blocks(x) == B - 1) if B < 10**6 else v["slot"]

    def at(p):
        lane, o = p % L, p // L
        q, g = divmod(N, L)
        start, length = lane * q + min(lane, g), q + (lane < g)
        phi = lane * K // L
        j = (o + phi) // K
        lo, hi = max(0, j * K - phi), min(length, (j + 1) * K - phi)
        x = start + lo + prp(key, 2, lane, j, hi - lo)(o - lo)
        if x < t * n:
            slot, row = divmod(x, n)
        elif x < t * n + r:
            slot, row = t, x - t * n
        else:
            slot, row = divmod(x - t * n - r, n)
            slot += t + 1
        i = blocks(slot)
        if i < full[-1]:
            s = bisect_right(full, i)
            return [s, (i - (full[s] - c[s] // n)) * n + row]
        d = (i - full[-1]) * n + row
        s = bisect_right(dust, d)
        return [s, c[s] // n * n + d - (dust[s] - c[s] % n)]

    return N, at


def deal(L, P, b, R):
    ranks, over = [[] for _ in range(R)], []
    for p in range(P, P + R * b):
        home = ranks[p % L % R]
        (home if len(home) < b else over).append(p)
    for rank in ranks:
        while len(rank) < b:
            rank.append(over.pop(0))
    return ranks


def mixture(v):
    """position -> [source, shard, row] of a mix, and the length of an epoch that ends with its first source"""
    factor = gcd(*(s["weight"] for s in v["sources"]))
    a = [s["weight"] // factor for s in v["sources"]]
    A, L = sum(a), v["lanes"]
    h = max(1, floor(0.382 * A + 0.5))
    while gcd(h, A) > 1:
        h += 1
    ends = list(accumulate(a))
    N = [sum(s["counts"]) for s in v["sources"]]
    copies = [max(1, -(-64 * L // n)) if v["stop"] == "never" else 1 for n in N]

    def source(lane, o):
        x = (lane * 0x9E3779B97F4A7C15 & M) * A >> 64
        return bisect_right(ends, (x + o * h) % A)

    def length(i, lane):
        q, g = divmod(N[i] * copies[i], L)
        return q + (lane < g)

    orders = {}

    def row(i, epoch, p):
        if (i, epoch) not in orders:
            s = v["sources"][i]
            orders[i, epoch] = order(
                {**s, "lanes": L, "repeat": 1, "shuffle": "blocks", "seed": v["seed"], "epoch": epoch}
            )
        return [i, *orders[i, epoch][1](p)]

    def walk(lane):
        """the rows of a lane one after another, None where a source would have to repeat"""
        c = [0] * len(a)
        for o in count():
            i = source(lane, o)
            times, k = divmod(c[i], length(i, lane))
            c[i] += 1
            p = k * L + lane
            yield (
                None if v["stop"] == "first" and times else (i, (v["epoch"] + times) * copies[i] + p // N[i], p % N[i])
            )

    lanes, seen = [walk(lane) for lane in range(L)], [[] for _ in range(L)]

    def at(p):
        mine = seen[p % L]
        while len(mine) <= p // L:
            mine.append(next(lanes[p % L]))
        return row(*mine[p // L])

    whole = None
    if v["stop"] == "first":
        whole = L * min(next(o for o, x in enumerate(walk(lane)) if x is None) for lane in range(L))
    return at, whole


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "vectors.json")) as f:
    vectors = json.load(f)
assert all(key_of(s, e) == k for s, e, k in vectors["keys"]), "keys"
for v in vectors["orders"]:
    if (
        v["repeat"] * len(v["counts"]) > 10**4
    ):  # finding the slot of the short block forwards would take hours: invert the rounds

        def inverse(v=v):
            key, N = key_of(v["seed"], v["epoch"]), sum(v["counts"]) * v["repeat"]
            m = -(-N // v["block"])
            w, y, sub = (m - 1).bit_length(), m - 1, mix(mix(mix(key ^ 1) ^ 0) ^ 0)
            low = w // 2
            while True:
                lo, hi = y & (1 << low) - 1, y >> low
                for i in range(7, -1, -1):
                    k = mix((sub + i * 0xD1342543DE82EF95) & M)
                    if i % 2:
                        lo ^= mix(hi ^ k) >> 7 & (1 << low) - 1
                    else:
                        hi ^= mix(lo ^ k) >> 7 & (1 << w - low) - 1
                y = hi << low | lo
                if y < m:
                    return y

        v["slot"] = inverse()
    N, at = order(v)
    assert [at(p) for p in range(len(v["first"]))] == v["first"], v["name"]
    assert [at(p) for p in v.get("positions", [])] == v.get("rows", []), v["name"]
    if "digest" in v:
        h, seen = hashlib.sha256(), set()
        for p in range(N):
            s, x = at(p)
            seen.add((s, x))
            h.update(s.to_bytes(8, "little") + x.to_bytes(8, "little"))
        assert h.hexdigest() == v["digest"], v["name"]
        assert len(seen) == N, v["name"]
    print(f"agrees: {v['name']} ({N} rows)")
for v in vectors["mixes"]:
    at, whole = mixture(v)
    assert whole == v.get("length"), v["name"]
    assert [at(p) for p in range(len(v["first"]))] == v["first"], v["name"]
    assert [at(p) for p in v["positions"]] == v["rows"], v["name"]
    print(f"agrees: {v['name']}")
for d in vectors["deals"]:
    assert deal(d["lanes"], d["position"], d["batch"], len(d["ranks"])) == d["ranks"], d
for s in vectors["states"]:
    rest = {k: x for k, x in s.items() if k != "hash"}
    assert hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest() == s["hash"], s
print(f"agrees: {len(vectors['deals'])} deals, {len(vectors['states'])} states, {len(vectors['keys'])} keys")
