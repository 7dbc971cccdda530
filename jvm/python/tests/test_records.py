"""Records: those of Spark's text files, however the bytes come."""

import random

import pytest

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


@pytest.mark.parametrize(("data", "text"), [
    # a surrogate is one stretch, whole or cut short
    (b"a\xed\xa0\x80b", "a\ufffdb"), (b"\xed\xbf\xbf", "\ufffd"), (b"\xed\xa0b", "\ufffdb"),
    (b"\xed\xa0", "\ufffd"), (b"\xed\xa0\xed\xa0\x80", "\ufffd\ufffd"), (b"\xed\xa0\xc0", "\ufffd\ufffd"),
    # all else as Unicode recommends
    (b"\xed", "\ufffd"), (b"\xedb", "\ufffdb"), (b"\xed\x9f\xbf", "\ud7ff"), (b"\xed\x9fb", "\ufffdb"),
    (b"\xff\xfe", "\ufffd\ufffd"), (b"\xe2\x82b", "\ufffdb"), (b"\xf0\x80\x80\x80", 4 * "\ufffd"),
])
@pytest.mark.parametrize("kind", ["lines", r"delimiter:\x0a"])
def test_what_is_no_text_is_replaced_as_java_replaces_it(data, text, kind):
    assert list(records(iter([data + b"\n" + data]), kind, False)) == [text, text]
