"""What jobs give: pairs of key and value, and what is kept of them to compare."""


def changed(pairs, gone, new, combine, undo):
    """The pairs of a text that lost the lines of `gone` and got those of `new`.

    combine: adds up two values of a key. undo: takes the second from the first.
    """
    pairs = dict(pairs)
    for key, value in new.items():
        pairs[key] = combine(pairs[key], value) if key in pairs else value
    for key, value in gone.items():
        pairs[key] = undo(pairs[key], value)
        if pairs[key] == undo(value, value):
            del pairs[key]
    return pairs


def kept(count, total):
    """How many pairs there are, and the sum of their hashes, which their order does not change."""
    return {"pairs": count, "hash": total % (1 << 64)}


def hash_of(pair):
    """Of what is written for a pair: hashes of tuples with small numbers grow by nearly equal steps, so that
    their sums hardly tell which key has which number."""
    return hash(repr(pair))


def of_pairs(pairs):
    return kept(len(pairs), sum(map(hash_of, pairs.items())))
