"""Metrics by name: of the tables, and of other packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import pytest

from assay import catalogue
from assay.metrics.table import TABLES, Family
from assay.metrics.threshold import Accuracy
from assay.records import StateChoice

EXACT = StateChoice(exact_ranking=True, bucketed="all")
Install = Callable[[str, str], None]


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a metric of another package: name, "module:class"."""

    def install(name: str, place: str) -> None:
        points = {catalogue.METRIC_PLUGINS: [EntryPoint(name, place, catalogue.METRIC_PLUGINS)]}
        monkeypatch.setattr(catalogue, "entry_points", lambda group: points.get(group, []))
        catalogue.plug_ins.cache_clear()

    yield install
    catalogue.plug_ins.cache_clear()


@pytest.mark.parametrize("family", list(TABLES))
def test_every_metric_of_the_tables_goes_by_its_name(family: Family) -> None:
    for name, found in zip(TABLES[family], catalogue.listed_metrics(family), strict=True):
        assert found.name == name or found.name.startswith((f"{name}(", f"{name}@"))
        assert catalogue.metric(found.name, family) == found
        assert found.description


def test_an_unknown_metric_offers_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"^There is no metric 'logloss'; did you mean 'log_loss'\?$"):
        catalogue.metric("logloss")


def test_metrics_share_their_accumulators() -> None:
    shared = catalogue.accumulators(
        [catalogue.metric("auc"), catalogue.metric("average_precision"), catalogue.metric("auc")], EXACT
    )
    identities = [one.identity for one in shared]
    assert len(set(identities)) == len(identities)
    assert set(identities) == {one.identity for one in catalogue.metric("auc").accumulators(EXACT)} | {
        one.identity for one in catalogue.metric("average_precision").accumulators(EXACT)
    }


def test_a_plug_in_is_a_metric_like_others(plug_in: Install) -> None:
    plug_in("hit_rate", "assay.metrics.threshold:Recall")
    assert "hit_rate" in catalogue.metric_places()
    assert catalogue.metric("hit_rate(threshold=0.3)").direction == "higher"


@pytest.mark.parametrize("family", list(catalogue.FAMILIES))
def test_every_metric_of_a_family_is_listed_once(family: Family) -> None:
    listed = catalogue.listed_metrics(family)
    assert len({one.name for one in listed}) == len(listed) == len(TABLES[family])
    kinds = {one.label_kind for one in listed} - {None}
    assert {catalogue.family_of(kind) for kind in kinds if kind is not None} == {family}


def test_what_is_installed_is_looked_up_once(plug_in: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in("hit_rate", "assay.metrics.threshold:Recall")
    assert "hit_rate" in catalogue.metric_places()
    monkeypatch.delattr(catalogue, "entry_points")
    assert "hit_rate" in catalogue.metric_places("classes")


def test_a_plug_in_is_of_one_family(plug_in: Install) -> None:
    plug_in("hit_rate", "assay.metrics.threshold:Accuracy")
    assert "hit_rate" in catalogue.metric_places("classes")
    assert not any(isinstance(one, Accuracy) for one in catalogue.listed_metrics("classes"))
    with pytest.raises(ValueError, match=r"^'hit_rate' is a metric of a single score, and the task is of several cl"):
        catalogue.metric("hit_rate", "classes")
