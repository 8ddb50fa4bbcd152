"""Corrections for many tests, and standard errors by one and by two clusters, against statsmodels."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.sandwich_covariance import cov_cluster_2groups

from assay.records import Replicates
from assay.stats.benjamini_hochberg import q_values
from assay.stats.holm import holm
from assay.stats.jackknife import Basis, Floats, Intervals, intervals


@pytest.fixture(scope="module", autouse=True)
def _no_garbage_collected() -> Iterator[None]:
    """Theirs collects garbage at each call, which takes a second in a process that holds much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda: 0)
        yield


SOME_P = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=40)


@given(SOME_P)
def test_holm_is_theirs(p: list[float]) -> None:
    np.testing.assert_allclose(holm(np.array(p)), multipletests(p, method="holm")[1], rtol=1e-9)


@given(SOME_P)
def test_benjamini_hochberg_is_theirs(p: list[float]) -> None:
    np.testing.assert_allclose(q_values(np.array(p)), multipletests(p, method="fdr_bh")[1], rtol=1e-9)


def of_mean(values: Floats, *clusters: np.ndarray) -> Intervals:
    """The mean with its jackknife over each cluster, of which each has a bucket of its own."""
    num_buckets = max(int(one.max()) for one in clusters) + 1
    without, occupied = [], []
    for cluster in clusters:
        rows = np.bincount(cluster, minlength=num_buckets)
        left = values.sum() - np.bincount(cluster, values, num_buckets)
        without.append((left / (len(values) - rows))[None])
        occupied.append((rows > 0)[None])
    mean = Replicates(np.array([values.mean()]), (None,), without[0], (None,), np.zeros(1), tuple(without[1:]))
    return intervals(mean, Basis(occupied[0], others=tuple(occupied[1:])))


def test_with_clusters_of_one_size_the_jackknife_of_a_mean_is_the_cluster_robust_error() -> None:
    random = np.random.default_rng(40)
    cluster = np.repeat(np.arange(30), 7)
    values = random.normal(0, 1, 30)[cluster] + random.normal(0, 1, len(cluster))
    shown = of_mean(values, cluster)
    fit = OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
    assert shown.standard_error[0] == pytest.approx(fit.bse[0], rel=1e-12)
    assert (shown.low[0], shown.high[0]) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-9)


def test_with_clusters_of_any_size_it_is_a_little_larger_as_cr3_is() -> None:
    """Cameron, Miller, "A Practitioner's Guide to Cluster-Robust Inference", 2015: residuals e / (1 - n_g / n)."""
    random = np.random.default_rng(41)
    cluster = np.repeat(np.arange(40), random.geometric(0.1, 40))
    values = random.normal(0, 1, 40)[cluster] + random.normal(0, 1, len(cluster))
    shown = of_mean(values, cluster)
    fit = OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": cluster})
    share = np.bincount(cluster) / len(cluster)
    moved = np.bincount(cluster, values - values.mean()) / len(values) / (1 - share)
    assert shown.standard_error[0] == pytest.approx(np.sqrt(39 / 40 * ((moved - moved.mean()) ** 2).sum()), rel=1e-9)
    assert 1.0 < shown.standard_error[0] / fit.bse[0] < 1.1


def test_two_way_is_theirs_where_all_pairs_have_as_many_rows() -> None:
    random = np.random.default_rng(42)
    user, day = (one.repeat(3) for one in np.divmod(np.arange(20 * 12), 12))
    values = random.normal(0, 1, 20)[user] + random.normal(0, 1, 12)[day] + random.normal(0, 1, len(user))
    shown = of_mean(values, user, day, 12 * user + day)
    variance, _, _ = cov_cluster_2groups(OLS(values, np.ones(len(values))).fit(), user, day)
    assert shown.standard_error[0] == pytest.approx(np.sqrt(variance[0, 0]), rel=1e-9)
    assert shown.degrees.tolist() == [11]
