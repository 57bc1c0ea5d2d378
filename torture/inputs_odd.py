"""Odd values, and damage: texts, JSON and bytes of which bad inputs are made."""

import json
import random
from typing import Any

from torture.seeds import Seeds

CLASSICS = [
    "", " ", "0", "-0", "-1", "1", "2", "1.5", "1e3", "1e400", "-1e400", "nan", "NaN", "inf", "-inf", "None", "null",
    "true", "False", "0x10", "0b1", "1_000", "٣", "½", "１２", "9" * 25, "9" * 5000, "-" + "9" * 400, "1" + "0" * 300,
    str(2**31), str(2**32), str(2**53 + 1), str(2**63), str(2**64), "1,2", ",", ",,", "1,", "1;2", "a,b", "all",
    "x" * 300, "y" * 5000, "../x", "~", "~nobody", ".", "..", "/", "a/b/c", "-", "--", "---", "*", "?", "[", "[bold]",
    "[/]", "$HOME", "$x^2", "%s%n", "%", "{0}", "{", "\\", "\\t", "\t", "\n", "a\nb", "\r", "\x1b[31mred\x1b[0m", "\x07",
    "\u202e", "\ufeff", "\ud800"[:0], "e\u0301", "é", "日本語", "🙂", "\udcff", "\udc80x", "a\u2028b", "'", '"', '"a',
    "=1+1", "=HYPERLINK(\"x\")", "@", "#", "digits", "vanilla", "no.py:Nothing", "table.csv", "model.safetensors",
]  # fmt: skip


def text(seeds: Seeds, rng: random.Random) -> str:
    return rng.choice(CLASSICS) if rng.random() < 0.5 else rng.choice(seeds.texts)


def odd_json(seeds: Seeds, rng: random.Random) -> Any:
    """A value that JSON can hold, mostly where another is expected."""
    return rng.choice(
        [
            lambda: None, lambda: True, lambda: {}, lambda: [], lambda: [None], lambda: {"": None}, lambda: 10**12,
            lambda: -1, lambda: 0, lambda: 10**400, lambda: 1.5, lambda: float("nan"), lambda: float("inf"),
            lambda: 1e308, lambda: text(seeds, rng), lambda: text(seeds, rng), lambda: [1] * 1000, lambda: [[]] * 3,
            lambda: {text(seeds, rng): odd_json(seeds, rng)}, lambda: [odd_json(seeds, rng)], lambda: "a" * 100_000,
            lambda: 2**63, lambda: -(2**63) - 1, lambda: [0.5, "x"], lambda: list(range(5)),
        ]
    )()  # fmt: skip


def mutated(seeds: Seeds, rng: random.Random, value: Any) -> Any:
    """The same JSON with one or a few places changed, removed, added or swapped."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        place = value
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                return odd_json(seeds, rng)
            key = rng.choice(keys)
            if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.75:
                place = place[key]
                continue
            break
        how = rng.randrange(5)
        if how == 0:
            del place[key]
        elif how == 1 and isinstance(place, dict):
            place[text(seeds, rng)] = odd_json(seeds, rng)
        elif how == 2:
            place[key] = place[rng.choice(keys)]
        elif how == 3 and isinstance(place[key], (int, float)):
            place[key] = rng.choice(
                [
                    -place[key],
                    place[key] * 10**6,
                    place[key] + (0.5 if abs(place[key]) < 1e300 else 1),
                    str(place[key]),
                    [place[key]],
                ]
            )
        else:
            place[key] = odd_json(seeds, rng)
        if not isinstance(value, (dict, list)) or not value:
            break
    return value


def as_json(rng: random.Random, value: Any) -> bytes:
    """JSON, now and then nested deeply, with a key twice, or with a number of thousands of digits."""
    whole = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
    how = rng.randrange(24)
    if how == 0:
        whole = whole.replace(": ", ": " + "[" * 10_000 + "]" * 10_000 + ', "x": ', 1)
    elif how == 1:
        whole = "[" * 100_000
    elif how == 2:
        whole = whole.replace("1", "9" * 5000, 1)
    elif how == 3 and whole.startswith("{"):
        whole = "{" + whole[1:-1] + ", " + whole[1:]
    return whole.encode("utf-8", "surrogatepass")


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes flipped, cut off, repeated, moved, or replaced by extreme numbers."""
    held = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        size = len(held)
        if not size:
            return rng.randbytes(rng.randrange(100))
        at = rng.randrange(size)
        if rng.random() < 0.4:  # headers stand at the beginning, and in some formats at the end
            at = min(rng.randrange(128), size - 1) if rng.random() < 0.6 else max(size - 1 - rng.randrange(128), 0)
        how = rng.randrange(9)
        if how <= 1:
            held[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            held[at] = rng.randrange(256)
        elif how == 3:
            del held[at:]
        elif how == 4:
            del held[at : at + rng.randrange(1, 64)]
        elif how == 5:
            held[at:at] = held[at : at + rng.randrange(1, 200)]
        elif how == 6:
            number = rng.choice([0, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1, 127, 10**12])
            width = rng.choice([1, 2, 4, 8])
            value = (number & ((1 << 8 * width) - 1)).to_bytes(width, rng.choice(["little", "big"]))
            held[at : at + width] = value
        elif how == 7:
            other = rng.randrange(size)
            length = rng.randrange(1, 64)
            held[at : at + length] = held[other : other + length]
        else:
            held[at:at] = rng.randbytes(rng.randrange(1, 32))
    return bytes(held)
