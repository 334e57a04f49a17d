"""Plain values, which are encoded without pickle: the same values, and no others."""

import collections
import enum
import pickle

import pytest
from clump import _codec, _native
from hypothesis import given, settings
from hypothesis import strategies as st

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(),
    st.binary(max_size=5000),
)
keys = st.one_of(st.text(max_size=9), st.integers(), st.booleans(), st.tuples(st.integers()))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.dictionaries(keys, inner), st.just(())
    ),
    max_leaves=40,
)


def shape(value):
    """Returns a value with the types of all its parts, in which NaN equals itself."""
    if isinstance(value, dict):
        return dict, [(shape(key), shape(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [shape(item) for item in value]
    return type(value), repr(value)


def sent(value):
    """Returns what another rank receives."""
    return _codec.loads(bytearray(b"".join(bytes(part) for part in _codec.dumps(value))))


@settings(max_examples=400, deadline=None)
@given(values)
def test_values_arrive_as_they_were(value):
    assert shape(sent(value)) == shape(value)
    # Pickle, which knows nothing of this encoding, agrees.
    assert shape(sent(value)) == shape(pickle.loads(pickle.dumps(value)))


def test_what_only_pickle_knows_is_pickled():
    twice, within = [1], []
    within.append(within)
    deep = []
    for _ in range(40):
        deep = [deep]

    class Kind(enum.IntEnum):
        ONE = 1

    plain = {"a": (1, 2.5, None, True, b"x", [()])}
    assert _native.plain_bytes(plain) is not None
    for value in (
        [twice, twice],
        within,
        deep,
        Kind.ONE,
        collections.OrderedDict(a=1),
        {1, 2},
        bytearray(b"x"),
        2**64,
        "\ud800",
        b"x" * 5000,
        1 + 2j,
        type("Text", (str,), {})("x"),
    ):
        assert _native.plain_bytes(value) is None, value
        assert _native.plain_bytes({"k": value}) is None, value
    got = sent([twice, twice])
    assert got[0] is got[1]
    got = sent(within)
    assert got[0] is got


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60), values, st.integers(0, 200), st.integers(0, 255))
def test_bytes_that_no_rank_sends_are_an_error(data, value, at, byte):
    whole = _native.plain_bytes(value) or _native.plain_bytes({"a": 1})
    changed = bytearray(whole)
    changed[8 + at % (len(whole) - 8)] = byte
    for bad in (bytearray(whole[:8] + data), changed, bytearray(whole[:-1])):
        try:
            _native.plain_value(bad)
        except (ValueError, TypeError):
            pass
    with pytest.raises(ValueError):
        _native.plain_value(bytearray(data[:7]))
