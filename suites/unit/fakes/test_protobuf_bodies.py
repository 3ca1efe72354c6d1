"""Kubernetes' protobuf bodies as objects."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drahealth.fakes.cluster.api_server.body_decoding import MAGIC, MESSAGES, Decoded, UnknownKindError, decode
from drahealth.suites.unit.fakes.protobuf_encoder import body, encode, objects

FROM_CLIENT_GO = [
    json.loads(line) for line in Path(__file__).with_name("client_go_bodies.jsonl").read_bytes().splitlines()
]
"""Bodies of random objects as client-go 0.37.1 encodes them, and the objects as it decodes them, without null."""


@pytest.mark.parametrize(
    "sent", FROM_CLIENT_GO, ids=lambda sent: f"{sent['object']['apiVersion']}-{sent['object']['kind']}"
)
def test_a_body_of_client_go_reads_as_its_json(sent: Any) -> None:
    assert decode(base64.b64decode(sent["body"])) == Decoded(sent["object"])


def test_each_message_has_a_body_of_client_go() -> None:
    sent = {(one["object"]["apiVersion"], one["object"]["kind"]) for one in FROM_CLIENT_GO}
    assert {kind for _, kind in sent - MESSAGES.keys()} == {"DeleteOptions"}
    assert sent >= MESSAGES.keys()


@given(st.sampled_from(sorted(MESSAGES)).flatmap(lambda key: objects(*key)))
@settings(max_examples=100, deadline=None)
def test_an_encoded_object_reads_as_before(obj: Any) -> None:
    assert decode(encode(obj)) == Decoded(obj)


@given(st.binary(max_size=64), st.sampled_from(sorted(MESSAGES)), st.booleans())
@settings(max_examples=200, deadline=None)
def test_random_bytes_read_as_an_object_or_are_invalid(data: bytes, key: tuple[str, str], in_envelope: bool) -> None:
    try:
        decoded = decode(body(*key, data) if in_envelope else MAGIC + data)
    except (ValueError, UnknownKindError):
        return
    json.dumps(decoded.object, allow_nan=False)


@given(st.sampled_from(FROM_CLIENT_GO), st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_bodies_read_as_an_object_or_are_invalid(sent: Any, data: st.DataObject) -> None:
    whole = bytearray(base64.b64decode(sent["body"]))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except (ValueError, UnknownKindError):
        return
    json.dumps(decoded.object, allow_nan=False)


def test_an_unknown_field_is_named() -> None:
    spec = bytes.fromhex("8a0601")  # number 97, one byte
    slice_ = bytes([0x12, len(spec) + 1]) + spec + b"x"
    decoded = decode(body("resource.k8s.io/v1", "ResourceSlice", slice_))
    assert decoded.unknown == ("ResourceSliceSpec field 97",)
    assert decoded.object["spec"] == {}


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "must start with the bytes"),
        (b"{}", "must start with the bytes"),
        (MAGIC + b"\xff", "Envelope cannot be decoded"),
        (body("v1", "Node", b"\x0a\xff"), "Node cannot be decoded"),
        (body("v1", "Node", b"\x0a\x03\x0a\x01\xff"), "Node cannot be decoded"),  # a name that is not UTF-8
        (body("v1", "Node", b"\x0a\x0c\x42\x0a\x08" + b"\xff" * 8 + b"\x7f"), "time out of range"),
        (body("v1", "Node", b"", encoding="gzip"), "contentEncoding must be empty"),
    ],
)
def test_an_unreadable_body_is_rejected(data: bytes, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        decode(data)


def test_messages_that_are_too_deep_are_rejected() -> None:
    nested = b""
    for _ in range(2000):
        nested = b"\x0a" + _varint(len(nested)) + nested
    with pytest.raises(ValueError, match="cannot be decoded"):
        decode(body("v1", "Node", nested))


def _varint(number: int) -> bytes:
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(number & 0x7F)
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(UnknownKindError) as raised:
        decode(body("apps/v1", "Deployment", b""))
    assert (raised.value.api_version, raised.value.kind) == ("apps/v1", "Deployment")
