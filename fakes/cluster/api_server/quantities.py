"""Amounts of resources in the form of Kubernetes, such as 500m or 2Gi. Pure.

Source: k8s.io/apimachinery, `pkg/api/resource`.
"""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def parse_quantity(text: str) -> Decimal:
    """The value of a quantity. Raises ValueError for another text."""
    if (match := _QUANTITY.fullmatch(text)) is None:
        raise ValueError(f"{text!r:.80} is not a quantity")
    number, exponent, suffix = match[1], match[2], match[3]
    if exponent:
        return Decimal(number).scaleb(max(min(int(exponent[1:]), 100), -100))
    if suffix in _BINARY:
        return Decimal(number) * Decimal(1024) ** (_BINARY.index(suffix) + 1)
    return Decimal(number).scaleb(_DECIMAL.get(suffix, 0))
