"""`python3 -m unittest test_results`, which a test of the laboratory runs."""

import collections
import hashlib
import operator
import tempfile
import unittest
from pathlib import Path

import hadoop
import results


class Results(unittest.TestCase):
    def test_lines_that_went_and_came_change_the_pairs_as_a_whole_run_would(self):
        base, gone, new = "a b a c".split(), "a c".split(), "d b".split()
        whole = collections.Counter(base)
        whole.subtract(gone)
        whole.update(new)
        expected = {word: count for word, count in whole.items() if count}
        found = results.changed(
            collections.Counter(base), collections.Counter(gone), collections.Counter(new), operator.add, operator.sub
        )
        self.assertEqual(found, expected)
        self.assertNotIn("c", found)

    def test_a_line_that_is_new_and_gone_is_neither(self):
        self.assertEqual(results.changed({}, {"x": 2}, {"x": 2}, operator.add, operator.sub), {})

    def test_order_does_not_matter_and_each_value_does(self):
        self.assertEqual(results.of_pairs({"a": 1, "b": 2}), results.of_pairs({"b": 2, "a": 1}))
        self.assertNotEqual(results.of_pairs({"a": 1, "b": 2}), results.of_pairs({"a": 2, "b": 1}))


class Hadoop(unittest.TestCase):
    def test_the_output_of_word_count_is_known_from_its_pairs(self):
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "part-r-00000"
            part.write_bytes("B\t2\na\t10\nä\t1\n".encode())
            (Path(folder) / "_SUCCESS").touch()
            found = hadoop.result_in(Path(folder))
            self.assertEqual(found, hadoop.MapReduce.result_of({"ä": 1, "a": 10, "B": 2}))
            self.assertEqual(found, {"pairs": 3, "hash": hashlib.sha256(part.read_bytes()).hexdigest()})
            self.assertNotEqual(found, hadoop.MapReduce.result_of({"ä": 1, "a": 10, "B": 3}))

    def test_what_a_run_noted_is_its_plan(self):
        noted = "#Fri Nov 27\nmiss-bytes=30\nhits=3\nhit-bytes=70\nmisses=1\njob=word count\npart.jar=a\\=b\n"
        log = "INFO x\nonefold: job 'word count': 3 of 4 splits replayed (75 %); planned in 0.250 s; memo m\n"
        plan = hadoop.plan_of(noted, log)
        self.assertEqual((plan["splits"], plan["splits_computed"]), (4, 1))
        self.assertEqual((plan["bytes"], plan["bytes_computed"]), (100, 30))
        self.assertEqual(plan["planning_seconds"], 0.25)
        self.assertRaises(KeyError, hadoop.plan_of, "hits=3\n", log)
        self.assertRaises(SystemExit, hadoop.plan_of, noted, "onefold: job 'word count' runs without the memo\n")


if __name__ == "__main__":
    unittest.main()
