"""Names, texts and bytes that a plugin might send: odd ones to try one by one, and strategies for any of them."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

ODD = {
    "slashes": "/a//b/",
    "newlines": "a\nERROR all is lost\r\n\u2028b",
    "10,000 characters": "x" * 10_000,
    "control characters": "\x00\x1b[31m\u202e",
    "one quote": "'\"",
}
odd_text = pytest.mark.parametrize("odd", ODD.values(), ids=ODD)

ANYTHING = st.text(max_size=5) | st.just("x" * 10_000) | st.just("a/b\nc")
a_few = settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink would take minutes of waiting for what fails
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def mutated(draw: st.DrawFn, messages: st.SearchStrategy[bytes]) -> bytes:
    """The bytes of a message, some of them changed, or any bytes at all."""
    data = bytearray(draw(messages | st.binary(max_size=60)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


def is_line(text: str, limit: int = 1000) -> bool:
    """One printable line of a length that can be read."""
    return text.isprintable() and len(text) <= limit
