"""Unknown names: which known one was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from assay.spec.words import either


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when none is like it. Case and `-` against `_` don't count.

    >>> nearest("lable", ["label", "weight"])
    'label'
    >>> nearest("AUC", ["auc", "brier"])
    'auc'
    >>> nearest("zzz", ["auc", "brier"]) is None
    True
    """
    by_plain = {_plain(one): one for one in known}
    found = get_close_matches(_plain(name), by_plain, n=1, cutoff=0.6)
    return by_plain[found[0]] if found else None


def offer(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or else the known ones.

    >>> offer("lable", ["label", "weight"])
    "; did you mean 'label'?"
    >>> offer("zzz", ["label", "weight"])
    "; expected 'label' or 'weight'."
    >>> offer("zzz", [])
    '; there are none.'
    """
    known = list(dict.fromkeys(known))
    near = nearest(name, known)
    if near is not None:
        return f"; did you mean {near!r}?"
    return f"; expected {either(known)}." if known else "; there are none."


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")
