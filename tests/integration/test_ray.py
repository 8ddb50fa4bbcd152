"""Real actors, real deaths: the same bytes as in this process, and each unit counted once."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from fakes.small_run import ACCUMULATORS, Counted, Positions, job, make_setup
from ray.exceptions import ActorUnavailableError

import assay.cluster.actors
from assay.cluster.connect import connected
from assay.cluster.driver import RayExecutor
from assay.cluster.nodes import Node, nodes
from assay.costs import Account
from assay.errors import ModelError, RunError
from assay.local import LocalExecutor
from assay.merge import merge_files
from assay.pipeline.cost import spent
from assay.protocols import Executor
from assay.records import Job, Progress
from assay.states import digest
from assay.store.log import CommitLog
from assay.store.run import RunDirectory
from assay.worker import WorkerSetup

pytestmark = pytest.mark.ray
MODELS = {"base": "same", "gaps": "gaps"}
TESTS = Path(__file__).parent.parent


def run(of: Job, executor: Executor) -> tuple[str, list[Progress]]:
    """The digest of all that is committed (each unit once, else merging refuses), and the progress."""
    progress: list[Progress] = []
    directory = RunDirectory.create(of.run)
    with CommitLog(directory) as log:
        executor.run(of, log, progress.append)
        assert sorted(receipt.unit for file in log.files for receipt in file.receipts) == [u.id for u in of.plan.units]
        return digest(merge_files(directory.read_state, log.files, ACCUMULATORS)), progress


def messages(progress: list[Progress]) -> list[str]:
    """Without those that say what is waited for, which only a slow machine has."""
    return [one.message for one in progress if one.message and not re.search(r", after \d+ s\.", one.message)]


def locally(of: Job) -> str:
    (Path(of.base) / "local").mkdir()
    return run(replace(of, run=str(Path(of.base) / "local")), LocalExecutor(1, make_setup))[0]


@pytest.mark.parametrize("workers", [1, 3])
def test_actors_give_the_same_bytes_as_threads(ray_address: str, tmp_path: Path, workers: int) -> None:
    of = job(tmp_path, MODELS, num_units=20)
    assert run(of, RayExecutor(workers, make_setup))[0] == locally(of)


def test_it_is_told_on_which_cluster_the_run_is(ray_address: str, tmp_path: Path) -> None:
    _, progress = run(job(tmp_path, MODELS), RayExecutor(1, make_setup))
    assert messages(progress) == [
        f"Ray: a cluster of this run's own, started on this machine at {ray_address}. It ends with the run."
    ]


def test_what_actors_spend_is_known_by_their_node(ray_address: str, tmp_path: Path) -> None:
    of = job(tmp_path, MODELS, num_units=20)
    run(of, RayExecutor(2, make_setup))
    accounts = spent(RunDirectory.for_worker(of.run))
    assert {(one.node_type, one.market) for one in accounts} == {("local", "")}  # a node without labels
    for variant in MODELS:
        amount = accounts[Account("local", "", "variant", variant)]
        assert amount.rows == 400
        assert amount.node_seconds == pytest.approx(amount.seconds / 3)  # of its three CPUs a worker takes one


def test_a_killed_actor_is_replaced_and_its_units_count_once(ray_address: str, tmp_path: Path) -> None:
    of = job(tmp_path, {"base": "same", "other": "dies_once"})
    result, progress = run(of, RayExecutor(2, make_setup))
    _, message = messages(progress)
    assert message.endswith(" was lost (its process died); its units are scored again.")
    assert len(list(tmp_path.glob("died-*"))) == 2  # once it died, once it only noted
    assert result == locally(job(tmp_path, {"base": "same", "other": "same"}))


def test_workers_on_a_drained_node_write_what_they_hold_and_are_replaced(
    ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the notice were withdrawn at once, since there is one node alone."""
    notices = [True]
    monkeypatch.setattr(assay.cluster.actors, "POLL_SECONDS", 0.0)
    of = job(tmp_path, MODELS, num_units=20)
    progress: list[Progress] = []

    def noticed() -> tuple[Node, ...]:
        begun = any(one.units_done for one in progress)
        return tuple(replace(one, draining=bool(begun and notices and notices.pop())) for one in nodes())

    monkeypatch.setattr(assay.cluster.actors, "nodes", noticed)
    with CommitLog(directory := RunDirectory.create(of.run)) as log:
        RayExecutor(1, make_setup).run(of, log, progress.append)
        result = digest(merge_files(directory.read_state, log.files, ACCUMULATORS))
        sentence = f"Worker {log.driver}-1 is about to lose its machine (its node is drained): it writes what it holds."
    assert messages(progress)[1:] == [sentence]
    assert result == locally(of)


def test_a_cluster_that_grows_gets_more_workers(
    ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [2, 1]
    monkeypatch.setattr(assay.cluster.actors, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(assay.cluster.actors, "most_workers", lambda *_: sizes.pop() if len(sizes) > 1 else sizes[0])
    of = job(tmp_path, MODELS, num_units=20)
    result, _ = run(of, RayExecutor(None, make_setup))
    events = "".join(path.read_text() for path in (Path(of.run) / "events").iterdir())
    assert '"resized",2]' in events
    assert result == locally(of)


def test_the_job_is_put_once_for_all_actors(ray_address: str, tmp_path: Path) -> None:
    of = job(tmp_path, MODELS)
    pickles: list[Positions] = []
    run(replace(of, source=Counted(of.source, pickles.append)), RayExecutor(3, make_setup))
    assert pickles == [of.source]


def test_an_answer_that_got_lost_is_asked_for_again(
    ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = []

    def said(call: Any) -> Any:
        answer = ray.get(call)
        answers.append(answer)
        if len(answers) in (1, 3):  # that it is ready, and that the second unit is done
            raise ActorUnavailableError("unreachable", None)
        return answer

    monkeypatch.setattr(assay.cluster.actors, "_said", said)
    of = job(tmp_path, MODELS)
    result, progress = run(of, RayExecutor(1, make_setup))
    monkeypatch.undo()
    assert not messages(progress)[1:]
    assert result == locally(of)


def test_a_failing_model_is_named_as_it_is_locally(ray_address: str, tmp_path: Path) -> None:
    of = job(tmp_path, {"base": "same", "broken": "fails_at_45"})
    sentence = "Variant 'broken': it cannot score 45. It was given rows 44 to 47 of rows.parquet."
    with pytest.raises(ModelError, match=f"^{sentence}$"):
        run(of, RayExecutor(1, make_setup))


def test_a_run_directory_that_the_driver_does_not_see_is_refused(ray_address: str, tmp_path: Path) -> None:
    def elsewhere(of: Job, bundle: int) -> WorkerSetup:
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        return make_setup(replace(of, run=str(tmp_path / "elsewhere")))

    of = job(tmp_path, MODELS)
    end = (
        f"is not in the run at {of.run} as the driver sees it. The run directory must be on storage that all nodes see"
    )
    with pytest.raises(RunError, match=end):
        run(of, RayExecutor(1, elsewhere))


def test_a_cluster_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def init(**settings: Any) -> None:
        attempts.append(settings["address"])
        raise ConnectionError("ray://nowhere timed out.\nat line 1")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    sentence = (
        "No Ray cluster could be reached at 'ray://nowhere': ray://nowhere timed out. Check --address and RAY_ADDRESS, "
        "and that the cluster runs the same versions of Ray and Python."
    )
    with pytest.raises(RunError, match=f"^{sentence}$"), connected("ray://nowhere", None):
        pass
    assert attempts == ["ray://nowhere"] * 3


def test_an_address_where_nothing_listens_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray would try for minutes"))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RunError, match=rf"reached at '{address}': .*refused\. Check"), connected(address, None):
            pass


def test_no_workers_no_run() -> None:
    with pytest.raises(RunError, match=r"^0 workers cannot score anything; give 1 or more.$"):
        RayExecutor(0, make_setup)


def test_the_address_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert RayExecutor(1, make_setup)._address == "head:6379"
    assert RayExecutor(1, make_setup, "other:6379")._address == "other:6379"
    assert os.environ["RAY_ADDRESS"] == "head:6379"
