"""`python3 -m unittest test_texts`, which a test of the laboratory runs."""

import hashlib
import struct
import tempfile
import unittest
from pathlib import Path

import texts

#: Enough for tests.
texts._POOL = 5000


def joined(stretches):
    return b"".join(stretches)


def text(size, kind="words", seed=1):
    return joined(texts.Lines(kind, seed).take(size))


def changed(base, percent, spread):
    """The text that comes of the changes, once it is seen that it has the old one's lines in order."""
    stretches = list(texts.changes(base, percent, spread, texts.Lines("words", 2)))
    assert base == joined(stretch for what, stretch in stretches if what != "new")
    assert all(stretch.endswith(b"\n") for what, stretch in stretches if what == "new")
    return joined(stretch for what, stretch in stretches if what != "gone")


def kept(one, other):
    """Bytes of whole lines that both have."""
    counts = {}
    for line in one.splitlines(True):
        counts[line] = counts.get(line, 0) + 1
    both = 0
    for line in other.splitlines(True):
        if counts.get(line, 0):
            counts[line] -= 1
            both += len(line)
    return both


class Texts(unittest.TestCase):
    def test_a_text_has_whole_lines_and_the_length_that_is_asked_for(self):
        for kind in ("words", "pairs", "points"):
            for size in (0, 1, 1000, 1_000_000):
                made = text(size, kind)
                self.assertTrue(size - 200 < len(made) <= size or not made and size < 200, (kind, size, len(made)))
                self.assertTrue(not made or made.endswith(b"\n"))
                self.assertEqual(made, text(size, kind))
            self.assertNotEqual(text(1000, kind), text(1000, kind, 2))

    def test_as_much_changes_as_is_asked_for_and_the_rest_stays(self):
        base = text(4_000_000)
        for spread in ("clustered", "scattered"):
            self.assertEqual(base, changed(base, 0, spread))
            for percent in (5, 25):
                other = changed(base, percent, spread)
                self.assertEqual(other, changed(base, percent, spread))
                gone = 1 - kept(base, other) / len(base)
                # a fourth of the scattered runs goes nowhere: new lines come in front of it
                expected = percent / 100 * (1 if spread == "clustered" else 0.75)
                self.assertAlmostEqual(gone, expected, delta=0.01 + expected / 5, msg=f"{percent} {spread}")
                new = 1 - kept(base, other) / len(other)
                self.assertAlmostEqual(new, expected, delta=0.01 + expected / 5, msg=f"{percent} {spread}")

    def test_a_clustered_change_leaves_what_is_before_and_behind(self):
        base = text(1_000_000)
        other = changed(base, 10, "clustered")
        self.assertEqual(base[:333_000], other[:333_000])
        self.assertEqual(base[-560_000:], other[-560_000:])

    def test_what_is_put_in_does_not_repeat(self):
        fresh = joined(texts.Lines("words", 2).take(4_000_000))
        pieces = [fresh[at:at + 200] for at in range(0, len(fresh) - 200, 100_000)]
        self.assertEqual(len(pieces), len(set(pieces)))


class Splits(unittest.TestCase):
    def test_fixed_splits_are_whole_lines_and_begin_behind_multiples(self):
        data = text(100_000)
        lengths = texts.fixed_splits(data, 7000)
        self.assertEqual(sum(lengths), len(data))
        at = 0
        for number, length in enumerate(lengths):
            self.assertIn(data[at - 1:at], (b"", b"\n"))
            self.assertTrue(0 <= at - 7000 * number < 200, (at, number))
            at += length

    def test_lines_longer_than_a_split_join_splits(self):
        data = b"x" * 2500 + b"\n" + b"y" * 10
        self.assertEqual(texts.fixed_splits(data, 1000), [2501, 10])
        self.assertEqual(texts.fixed_splits(b"z" * 999, 1000), [999])
        self.assertEqual(texts.fixed_splits(b"a\nb\n", 2), [2, 2])

    def test_a_manifest_names_its_splits(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "one", Path(folder) / "two"
            data = text(50_000)
            source.write_bytes(data)
            for _ in range(2):
                self.assertEqual("sha256:" + hashlib.sha256(data).hexdigest(), texts.put_fixed(source, target, 9000))
            manifest = (Path(folder) / ".two.onefold").read_bytes()
            self.assertEqual(hashlib.sha256(manifest[:-32]).digest(), manifest[-32:])
            length, modified, count = struct.unpack_from("<QQI", manifest, 16 + 32)
            self.assertEqual((length, count), (len(data), 6))
            self.assertEqual(modified, source.stat().st_mtime_ns // 1_000_000)
            at = 0
            for place in range(68, 68 + 40 * count, 40):
                (split,) = struct.unpack_from("<Q", manifest, place)
                self.assertEqual(manifest[place + 8:place + 40], hashlib.sha256(data[at:at + split]).digest())
                at += split
            texts.remove(target)
            self.assertEqual([source], list(Path(folder).iterdir()))

    def test_a_folder_is_one_text_in_the_order_of_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "b").mkdir()
            (Path(folder) / "b/1").write_bytes(b"second\n")
            (Path(folder) / "a").write_bytes(b"first\n")
            self.assertEqual(joined(texts.text_of(Path(folder))), b"first\nsecond\n")
            self.assertEqual(joined(texts.text_of(Path(folder) / "a")), b"first\n")


if __name__ == "__main__":
    unittest.main()
