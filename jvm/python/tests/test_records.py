"""Records: those of Spark's text files, however the bytes come."""

import random

from onefold_spark._records import records


def cut(rng, data):
    while data:
        length = rng.randint(1, 7)
        yield data[:length]
        data = data[length:]


def test_lines_do_not_depend_on_how_the_bytes_come():
    rng = random.Random(1)
    for _ in range(2000):
        data = bytes(rng.choice(b"a\xc3\xa9\n\r\n") for _ in range(rng.randint(0, 30)))
        whole = list(records(iter([data]), "lines", False))
        assert whole == list(records(cut(rng, data), "lines", False))
        assert whole == [line.decode("utf-8", "replace") for line in data.splitlines()]


def test_delimited_records_are_what_split_finds():
    rng = random.Random(2)
    for _ in range(2000):
        data = bytes(rng.choice(b"ab-") for _ in range(rng.randint(0, 30)))
        expected = data.split(b"--")
        if not expected[-1]:
            expected.pop()
        kind = "delimiter:" + r"\x2d\x2d"
        assert [r.encode() for r in records(cut(rng, data), kind, False)] == expected


def test_records_of_one_length_are_bytes():
    rng = random.Random(3)
    for length in range(1, 9):
        data = rng.randbytes(50)
        expected = [data[at:at + length] for at in range(0, 50, length)]
        assert list(records(cut(rng, data), f"length:{length}", False)) == expected


def test_a_byte_order_mark_is_dropped_where_the_jar_says_so():
    data = "\ufeffa\nb".encode()
    assert list(records(iter([data]), "lines", True)) == ["a", "b"]
    assert list(records(iter([data]), "lines", False)) == ["\ufeffa", "b"]
