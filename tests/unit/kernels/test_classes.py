"""The loops over classes and labels, compiled and as plain Python, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels import classes
from assay.kernels.elementary import UNIT

C, N, S, B, K = 4, 40, 5, 3, 1


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return {
        "actual": rng.integers(0, C, N).astype(np.int32),
        "predicted": rng.integers(-1, C, N).astype(np.int32),
        "outputs": np.round(rng.random((C, N)), 1).astype(np.float32),
        "targets": (rng.random((C, N)) < 0.4).astype(np.uint8),
        "weight": rng.integers(1, 1 << 26, N),
        "slices": np.stack([np.zeros(N), rng.integers(1, 3, N), rng.integers(3, 5, N)]).astype(np.int32),
        "bucket": rng.integers(0, B, N).astype(np.int32),
    }


def forms(kernel):
    return [kernel, kernel.py_func]


def expected_counts(rows, actual, predicted):
    """From masks [C, N]: rows, cells [S, C, 3] and by_bucket [K, B, C, 3]."""
    found = np.zeros((S, C, 3), np.int64), np.zeros((S, C, 3), np.int64), np.zeros((K, B, C, 3), np.int64)
    for one in range(S):
        for position, mask in enumerate((actual, predicted, actual & predicted)):
            inside = mask & (rows["slices"] == one).any(axis=0)
            found[0][one, :, position] = inside.sum(axis=1)
            found[1][one, :, position] = (inside * rows["weight"]).sum(axis=1)
            for bucket in range(B) if one < K else ():
                found[2][one, bucket, :, position] = (inside * rows["weight"] * (rows["bucket"] == bucket)).sum(axis=1)
    return found


def counted(kernel, *leading, rows):
    found = np.zeros((S, C, 3), np.int64), np.zeros((S, C, 3), np.int64), np.zeros((K, B, C, 3), np.int64)
    kernel(*leading, rows["weight"], rows["slices"], rows["bucket"], *found)
    return found


def test_count_classes(rows):
    actual, predicted = (rows[name] == np.arange(C)[:, None] for name in ("actual", "predicted"))
    expected = expected_counts(rows, actual, predicted)
    for kernel in forms(classes.count_classes):
        ours = counted(kernel, rows["actual"], rows["predicted"], rows=rows)
        assert all(np.array_equal(a, b) for a, b in zip(ours, expected, strict=True))


def test_count_labels(rows):
    expected = expected_counts(rows, rows["targets"] != 0, rows["outputs"] >= np.float32(0.7))
    for kernel in forms(classes.count_labels):
        ours = counted(kernel, rows["targets"], rows["outputs"], np.float32(0.7), rows=rows)
        assert all(np.array_equal(a, b) for a, b in zip(ours, expected, strict=True))


def test_count_bins(rows):
    place, positive = (rows["outputs"][0] * 10).astype(np.int32), rows["targets"][0] != 0
    for kernel in forms(classes.count_bins):
        overall, cells, by_bucket = (np.zeros((*shape, 2), np.int64) for shape in ((16,), (S, 8), (K, B, 4)))
        kernel(place, 1, 2, positive, rows["weight"], rows["slices"], rows["bucket"], overall, cells, by_bucket)
        for one in (0, 1):
            chosen = (positive == one) & (place == 3)
            assert overall[3, one] == rows["weight"][chosen].sum()
            half = (positive == one) & (place >> 1 == 1) & (rows["slices"][1] == 2)
            assert cells[2, 1, one] == rows["weight"][half].sum()
            coarse = (positive == one) & (place >> 2 == 1) & (rows["bucket"] == 2)
            assert by_bucket[0, 2, 1, one] == rows["weight"][coarse].sum()


def test_class_ranks(rows):
    outputs, actual = rows["outputs"], rows["actual"]
    order = np.argsort(-outputs, axis=0, kind="stable")
    expected = 1 + np.argmax(order == actual, axis=0)
    for kernel in forms(classes.class_ranks):
        assert kernel(outputs, actual).tolist() == expected.tolist()


def test_losses(rows):
    outputs, actual = rows["outputs"], rows["actual"]
    own = np.clip(outputs[actual, np.arange(N)].astype(float), 2**-24, 1 - 2**-24)
    squares = ((outputs.astype(float) - (actual == np.arange(C)[:, None])) ** 2).sum(axis=0)
    for kernel in forms(classes.class_log_losses):
        np.testing.assert_allclose(kernel(outputs, actual), -np.log(own) * UNIT, atol=1)
    for kernel in forms(classes.class_squares):
        np.testing.assert_allclose(kernel(outputs, actual), squares, rtol=1e-14)


def test_label_mistakes(rows):
    expected = ((rows["outputs"] >= np.float32(0.3)) != (rows["targets"] != 0)).sum(axis=0)
    for kernel in forms(classes.label_mistakes):
        assert kernel(rows["targets"], rows["outputs"], np.float32(0.3)).tolist() == expected.tolist()


def test_label_ranking_precisions(rows):
    targets, outputs = np.ascontiguousarray(rows["targets"].T), np.ascontiguousarray(rows["outputs"].T)
    expected = []
    for truth, scores in zip(targets != 0, outputs, strict=True):
        shares = [(scores[truth] >= one).sum() / (scores >= one).sum() for one in scores[truth]]
        expected.append(np.mean(shares) if 0 < truth.sum() < C else 1.0)
    for kernel in forms(classes.label_ranking_precisions):
        np.testing.assert_allclose(kernel(targets, outputs) / UNIT, expected, atol=2**-32)
