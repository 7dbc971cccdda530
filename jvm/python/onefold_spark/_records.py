"""Splits of bytes into records."""

import codecs

#: What `bytes.decode` does with bytes that are no UTF-8: what Java does, by which Spark reads text files.
_ERRORS = "onefold-as-java"


def records(chunks, kind, drops_mark):
    """The records in `chunks`, which together are the bytes of a split.

    `kind` is `lines`, `delimiter:X` or `length:N` as manifests write them. Lines and delimited records
    are text without their ends, as Spark's text files have them; records of one length are bytes.
    """
    # here, since workers get this module's functions and do not import it
    codecs.register_error(_ERRORS, _replaced)
    if drops_mark:
        chunks = _without_mark(chunks)
    if kind == "lines":
        return _lines(chunks)
    if kind.startswith("delimiter:"):
        return _delimited(chunks, _unescape(kind[len("delimiter:"):]))
    if kind.startswith("length:"):
        return _of_length(chunks, int(kind[len("length:"):]))
    raise ValueError(f"records {kind!r}: expected lines, delimiter:X or length:N")


def _without_mark(chunks):
    first = True
    for chunk in chunks:
        yield chunk[3:] if first else chunk
        first = False


def _unescape(text):
    # the jar writes every byte that is no plain character as \xHH
    return text.encode("ascii").decode("unicode_escape").encode("latin-1")


def _pieces(chunks, end):
    """Stretches of whole records, each with its last end; the last stretch may lack it."""
    rest = []
    for chunk in chunks:
        at = chunk.rfind(end)
        if at < 0:
            rest.append(chunk)
            continue
        at += len(end)
        yield b"".join(rest) + chunk[:at] if rest else chunk[:at]
        rest = [chunk[at:]] if at < len(chunk) else []
    if rest:
        yield b"".join(rest)


def _lines(chunks):
    for piece in _pieces(chunks, b"\n"):
        if b"\r" in piece:
            for line in piece.splitlines():
                yield line.decode("utf-8", _ERRORS)
        else:
            text = piece.decode("utf-8", _ERRORS)
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            yield from lines


def _delimited(chunks, end):
    rest = b""
    for chunk in chunks:
        parts = (rest + chunk).split(end)
        rest = parts.pop()
        for part in parts:
            yield part.decode("utf-8", _ERRORS)
    if rest:
        yield rest.decode("utf-8", _ERRORS)


def _of_length(chunks, length):
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        whole = len(data) - len(data) % length
        for at in range(0, whole, length):
            yield data[at:at + length]
        rest = data[whole:]
    if rest:
        yield rest


def _replaced(error):
    """One U+FFFD for each stretch that Java replaces by one.

    Java takes the bytes of a surrogate, ED A0..BF 80..BF, for one stretch, whole or cut short, and Python takes each
    byte for one. All other stretches are the same.
    """
    data, at = error.object, error.start
    if data[at] == 0xED and b"\xa0" <= data[at + 1:at + 2] <= b"\xbf":
        is_whole = b"\x80" <= data[at + 2:at + 3] <= b"\xbf"
        return "\ufffd", at + (3 if is_whole else 2)
    return "\ufffd", error.end
