"""What Python's workers run: the items of a task come in as frames, their results go out as frames.

The Java class `onefold.spark.Frames` has the frames. This module and `_records` travel to the workers
with the functions, so that the package need not be installed there.
"""

import pickle
import struct

from ._records import records

BEGIN, DATA, KNOWN, OUTPUT, END, REPLAY, ABANDON = (ord(tag) for tag in "SDPOERX")
VERIFIED, WRITTEN, NODE, MARK = 1, 2, 4, 8

_NAME = slice(6, 38)
_PART = slice(38, 42)
_RECORDS = 48

_BATCH = 1000
#: A split's results are combined up to so many keys at a time, unless its parts need all of them.
_MOST_KEYS = 1_000_000


class Worker:
    """Runs the functions of an operation over the frames of a task."""

    def __init__(self, results):
        self.results = results

    def __call__(self, _partition, frames):
        frames = iter(frames)
        for frame in frames:
            if frame[0] != BEGIN:
                yield bytes(frame)
            elif frame[1] & NODE:
                yield from self._node(frame, frames)
            else:
                yield from self._split(frame, frames)

    def _node(self, begin, frames):
        (part,) = struct.unpack(">i", begin[_PART])
        combined = {}
        for frame in frames:
            if frame[0] == END:
                break
            if frame[0] == ABANDON:
                yield bytes(frame)
                return
            self.results.merge(combined, pickle.loads(frame[5:]))
        yield bytes(begin)
        for batch in self.results.batches(combined.items()):
            yield output(part, batch)
        yield bytes([END])

    def _split(self, begin, frames):
        body = Body(frames)
        known = body.known() if begin[1] & VERIFIED else None
        kind = bytes(begin[_RECORDS:]).decode("utf-8")
        given = records(body, kind, begin[1] & MARK)
        yield bytes(begin)
        if known is None:
            yield from self.results.compute(given)
        else:
            computed = list(self.results.compute(given))
            if not self.results.equal([k[5:] for k in known], [c[5:] for c in computed]):
                raise AssertionError(
                    f"verification failed: the memo's entry {bytes(begin[_NAME]).hex()} is not what the job"
                    " computes from its split now; the job's functions depend on more than their input, or"
                    " version= was not changed with them; change version=, or run without a memo"
                )
            yield from computed
        body.drain()
        yield bytes([END])


class Body:
    """The bytes of a split, as chunks."""

    def __init__(self, frames):
        self._frames = frames
        self._first = None
        self._ended = False

    def known(self):
        """The frames of the known result, which come first."""
        known = []
        for frame in self._frames:
            if frame[0] != KNOWN:
                self._first = frame
                break
            known.append(bytes(frame))
        return known

    def __iter__(self):
        return self

    def __next__(self):
        if self._ended:
            raise StopIteration
        frame, self._first = self._first, None
        if frame is None:
            frame = next(self._frames)
        if frame[0] == END:
            self._ended = True
            raise StopIteration
        return bytes(frame[1:])

    def drain(self):
        for _ in self:
            pass


def output(part, content):
    return struct.pack(">Bi", OUTPUT, part) + content


class Pickled:
    """The results of a function over the records of a split, pickled in batches."""

    def __init__(self, function, dumps):
        self.function = function
        self.dumps = dumps

    def compute(self, given):
        for batch in self.batches(self.function(given)):
            yield output(0, batch)

    def batches(self, results):
        batch = []
        for result in results:
            batch.append(result)
            if len(batch) == _BATCH:
                yield self.dumps(batch)
                batch = []
        if batch:
            yield self.dumps(batch)

    def equal(self, known, computed):
        """Whether two lists of batches have equal results."""
        if known == computed:
            return True
        known = [result for batch in known for result in pickle.loads(batch)]
        computed = [result for batch in computed for result in pickle.loads(batch)]
        return len(known) == len(computed) and all(map(self._same, known, computed))

    def _same(self, one, other):
        try:
            if one == other:
                return True
        except Exception:  # arrays have no truth value; some objects cannot be compared
            pass
        # equal pickles tell equal objects where comparing cannot, as with NaN
        return self.dumps(one) == self.dumps(other)


class Combined(Pickled):
    """Pairs, with the values of equal keys combined within a split."""

    def __init__(self, function, dumps, combine, parts, part_of):
        super().__init__(function, dumps)
        self.combine = combine
        self.parts = parts
        self.part_of = part_of

    def compute(self, given):
        if self.parts == 0:
            yield from self._unparted(given)
            return
        combined = [{} for _ in range(self.parts)]
        for key, value in self.function(given):
            self._add(combined[self.part_of(key) % self.parts], key, value)
        for part in range(self.parts):
            for batch in self.batches(combined[part].items()):
                yield output(part, batch)

    def _unparted(self, given):
        combine = self.combine
        combined = {}
        for key, value in self.function(given):
            if key in combined:
                combined[key] = combine(combined[key], value)
            else:
                combined[key] = value
                if len(combined) > _MOST_KEYS:
                    for batch in self.batches(combined.items()):
                        yield output(0, batch)
                    combined = {}
        for batch in self.batches(combined.items()):
            yield output(0, batch)

    def _add(self, combined, key, value):
        combined[key] = self.combine(combined[key], value) if key in combined else value

    def merge(self, combined, pairs):
        """Adds the pairs of a result that comes behind those in `combined`."""
        for key, value in pairs:
            self._add(combined, key, value)


class Columns:
    """Arrow record batches of a function that gets record batches of one column, `value`."""

    _ROWS = 10_000

    def __init__(self, function, schema):
        self.function = function
        self.schema = schema

    def compute(self, given):
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.schema) as stream:
            for batch in self.function(self._given(given)):
                if batch.schema.names != self.schema.names:
                    raise ValueError(
                        f"map_in_arrow: the function yields columns {batch.schema.names}, expected"
                        f" {self.schema.names}"
                    )
                table = pa.Table.from_batches([batch]).cast(self.schema)
                stream.write_table(table)
        yield output(0, sink.getvalue().to_pybytes())

    def _given(self, given):
        import itertools

        import pyarrow as pa

        given = iter(given)
        while values := list(itertools.islice(given, self._ROWS)):
            kind = pa.binary() if isinstance(values[0], bytes) else pa.string()
            yield pa.RecordBatch.from_arrays([pa.array(values, kind)], ["value"])

    def equal(self, known, computed):
        return known == computed or self._table(known).equals(self._table(computed))

    @staticmethod
    def _table(streams):
        import pyarrow as pa

        return pa.concat_tables(pa.ipc.open_stream(stream).read_all() for stream in streams)


def read_columns(batches):
    """The record batches in a column of Arrow streams."""
    import pyarrow as pa

    for batch in batches:
        for stream in batch.column(0):
            yield from pa.ipc.open_stream(stream.as_buffer()).read_all().to_batches()
