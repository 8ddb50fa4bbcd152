"""What the audit finds where predictions, their manifest or the outputs are not what each other say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

import assay
from assay.hashing import content_digest
from assay.pipeline.verify import verify
from assay.sinks.names import claim_of
from assay.spec.load import build_spec

UNIT_ROWS, NUM_UNITS = 10, 4
AGAIN = "To have all written again, remove predictions.json of the run and resume it."
KINDS: dict[str, dict[str, object]] = {
    "parquet": {},
    "arrow": {"format": "arrow"},
    "csv": {"format": "csv"},
    "csv.gz": {"format": "csv", "compression": "gzip"},
    "jsonl": {"format": "jsonl"},
    "jsonl.zst": {"format": "jsonl", "compression": "zstd"},
    "parted": {"partition_by": ["country"]},
    "best": {"top_k": {"k": 2, "group": "country"}},
}


class Mine(pa.ExtensionType):
    """A type of the user's own, which not each process knows."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "assay.test.mine")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Mine:
        return cls()


Manifest = dict[str, Any]  # Any: JSON
Change = Callable[[Path, Manifest], object]
"""(the run's folder, its manifest, that is saved afterwards)"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each kind: four units of ten rows; `gaps` lacks nine of the third and all of the fourth."""
    folder, number = tmp_path_factory.mktemp("runs"), UNIT_ROWS * NUM_UNITS
    rows = pa.table(
        {
            "id": pa.array(range(number), pa.int64()),
            "x": [row / number for row in range(number)],
            "country": [("US", "FR")[row % 2] for row in range(number)],
            "note": ['said "no",\nand left' if row % 3 else None for row in range(number)],
        }
    )
    pq.write_table(rows, folder / "rows.parquet")
    for name, predictions in KINDS.items():
        tree = {
            "data": {"path": "rows.parquet"},
            "output": {"is": "score"},
            "carry_over": ["id", "country", "note"],
            "predictions": predictions,
            "execution": {"unit_rows": UNIT_ROWS, "micro_batch": UNIT_ROWS},
            "variants": [
                {"name": variant, "callable": f"fakes.predictors:{function}", "inputs": ["x"], "receive": "dict"}
                for variant, function in (("twice", "twice"), ("gaps", "gaps_above_half"))
            ],
        }
        assay.predict(build_spec(tree), base=folder, out=folder / name, executor="local", workers=1)
    return folder


def failure(run: Path) -> str:
    """The detail of the one check that fails; "" where all pass."""
    failed = [one for one in verify(str(run)).checks if not one.passed]
    assert [one.name for one in failed] in ([], ["predictions"])
    return failed[0].detail if failed else ""


def changed(runs: Path, kind: str, tmp_path: Path, change: Change) -> tuple[Path, Manifest, str]:
    """A copy of a run to which this was done, its manifest, and what the audit says."""
    run = tmp_path / "run"
    shutil.copytree(runs / kind, run)
    manifest = json.loads((run / "predictions.json").read_text())
    change(run, manifest)
    (run / "predictions.json").write_text(json.dumps(manifest))
    return run, manifest, failure(run)


def replaced(run: Path, manifest: Manifest, make: Callable[[bytes], bytes], parts: str = "parts") -> None:
    """The first file has other content, under the name that it then has, as the manifest lists it."""
    part, folder = manifest[parts][0], run / ("predictions" if parts == "parts" else "dead-letter")
    content = make((folder / part["path"]).read_bytes())
    (folder / part["path"]).unlink()
    digest = content_digest([content])
    part |= {"path": part["path"].replace(part["digest"], digest), "digest": digest, "bytes": len(content)}
    (folder / part["path"]).write_bytes(content)


def parquet(change: Callable[[pa.Table], pa.Table], content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(change(pq.ParquetFile(pa.BufferReader(content)).read()), sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def ipc(change: Callable[[pa.Table], pa.Table], content: bytes) -> bytes:
    sink, table = pa.BufferOutputStream(), change(pa.ipc.open_file(content).read_all())
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def ids_as_text(table: pa.Table) -> pa.Table:
    return table.set_column(0, "id", table["id"].cast(pa.string()))


def first_named_a(table: pa.Table) -> pa.Table:
    return table.rename_columns(["a", *table.column_names[1:]])


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_nobody_touched_passes(runs: Path, kind: str) -> None:
    assert failure(runs / kind) == ""


# ---- the manifest and the run ----------------------------------------------------------------------------------------


def no_files(run: Path, manifest: Manifest) -> None:
    manifest["format"] = "delta"
    for part in manifest["parts"]:
        (run / "predictions" / part["path"]).unlink()


def test_the_format_is_that_of_the_spec(runs: Path, tmp_path: Path) -> None:
    *_, said = changed(runs, "parquet", tmp_path, no_files)
    assert said == (
        "predictions.json says that the format is 'delta', and the spec of the run says 'parquet'. " + AGAIN
    )


def test_the_manifest_is_of_the_run(runs: Path, tmp_path: Path) -> None:
    run, _, said = changed(runs, "parquet", tmp_path, lambda run, found: found.update(run="zzz"))
    own = json.loads((run / "environment.json").read_text())["run"]
    assert said == f"predictions.json says that it is of the run 'zzz', and this run is {own!r}. {AGAIN}"


@pytest.mark.parametrize(
    ("field", "what", "folder"),
    [("place", "predictions", "predictions"), ("dead_place", "dead letters", "dead-letter")],
)
def test_the_places_are_those_of_the_run(runs: Path, tmp_path: Path, field: str, what: str, folder: str) -> None:
    run, _, said = changed(runs, "parquet", tmp_path, lambda run, found: found.update({field: "./other"}))
    expected = f"the {what} are in {run}/other, and the run writes them to {run}/{folder}"
    assert said == f"predictions.json says that {expected}. {AGAIN}"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda found: found.update(version=9), "version: got 9; expected 1."),
        (lambda found: found.pop("rows"), "rows: is required, and not given."),
        (lambda found: found.update(rows="3"), "rows: got '3'; expected a whole number."),
        (lambda found: found.update(rows=True), "rows: got true; expected a whole number."),
        (lambda found: found.update(parts=3), "parts: got 3; expected a valid list."),
        (
            lambda found: found.update(more=1),
            "more: unknown key 'more'; expected 'version', 'run', 'place', 'format', 'rows', 'columns', 'parts', "
            "'dead', 'dead_place', 'dead_parts' or 'notes'.",
        ),
        (lambda found: found["parts"].insert(0, 3), "parts[0]: got 3; expected a mapping."),
        (lambda found: found["parts"][1].update(digest=None), "parts[1].digest: got nothing; expected text."),
        (lambda found: found["dead_parts"][0].pop("unit"), "dead_parts[0].unit: is required, and not given."),
        (lambda found: found["parts"][0].update(partition={"a": 1}), "parts[0].partition.a: got 1; expected text."),
        (lambda found: found["columns"][0].update(type=3), "columns[0].type: got 3; expected text."),
        (lambda found: found["dead"].update(gaps="many"), "dead.gaps: got 'many'; expected a whole number."),
        (lambda found: found.update(notes=[None]), "notes[0]: got nothing; expected text."),
    ],
)
def test_a_manifest_of_another_form(
    runs: Path, tmp_path: Path, change: Callable[[Manifest], object], fault: str
) -> None:
    run, _, said = changed(runs, "parquet", tmp_path, lambda run, found: change(found))
    assert said == (
        f"predictions.json of the run at {run} is none that this version of assay wrote: {fault} Have it written "
        f"again: remove it, then assay resume {run}"
    )


def test_a_manifest_that_is_no_mapping(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "parquet", tmp_path / "run")
    (tmp_path / "run" / "predictions.json").write_text("[]")
    assert "wrote: got []; expected a mapping. Have it" in failure(tmp_path / "run")


# ---- the files that it lists -----------------------------------------------------------------------------------------


def test_a_file_in_the_place_of_another(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> None:
        (run / "predictions" / found["parts"][1]["path"]).unlink()
        found["parts"][1] = found["parts"][0] | {"unit": found["parts"][1]["unit"]}

    _, manifest, said = changed(runs, "parquet", tmp_path, change)
    assert said == f"predictions.json lists {manifest['parts'][0]['path']} twice. {AGAIN}"


def test_a_unit_that_the_plan_does_not_have(runs: Path, tmp_path: Path) -> None:
    _, manifest, said = changed(runs, "parquet", tmp_path, lambda run, found: found["parts"][0].update(unit="u"))
    path = manifest["parts"][0]["path"]
    assert said == f"predictions.json lists {path} as one of the unit 'u', which is not in the plan. {AGAIN}"


@pytest.mark.parametrize("kind", ["parts", "dead_parts"])
def test_units_that_are_swapped(runs: Path, tmp_path: Path, kind: str) -> None:
    def change(run: Path, found: Manifest) -> None:
        first, second = found[kind][:2]
        first["unit"], second["unit"] = second["unit"], first["unit"]

    _, manifest, said = changed(runs, "parquet", tmp_path, change)
    path = manifest[kind][0]["path"]
    assert said.startswith(f"predictions.json lists {path}, and its unit, partition and digest make it part-0000")


def test_files_in_another_order(runs: Path, tmp_path: Path) -> None:
    _, manifest, said = changed(runs, "parquet", tmp_path, lambda run, found: found["parts"].reverse())
    path, unit = manifest["parts"][1]["path"], manifest["parts"][1]["unit"]
    assert said == f"predictions.json lists {path} of the unit {unit!r} behind files of later units. {AGAIN}"


def test_a_partition_that_is_not_its_folder(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> None:
        (run / "predictions" / "country=US").rename(run / "predictions" / "country=XX")
        for part in found["parts"]:
            part["path"] = part["path"].replace("=US", "=XX")

    _, manifest, said = changed(runs, "parted", tmp_path, change)
    paths = [part["path"] for part in manifest["parts"]]
    path = next(path for path in paths if "=XX" in path)
    made = path.replace("=XX", "=US")
    assert said == f"predictions.json lists {path}, and its unit, partition and digest make it {made}. {AGAIN}"


def test_a_partition_by_no_column_of_the_spec(runs: Path, tmp_path: Path) -> None:
    _, manifest, said = changed(
        runs, "parted", tmp_path, lambda run, found: found["parts"][0].update(partition={"id": "3"})
    )
    path = manifest["parts"][0]["path"]
    assert said == (
        f"predictions.json lists {path} as one of the partition {{'id': '3'}}, not by ['country']. " + AGAIN
    )


def test_rows_of_the_manifest_and_of_its_files(runs: Path, tmp_path: Path) -> None:
    *_, said = changed(runs, "best", tmp_path, lambda run, found: found.update(rows=5))
    assert said.startswith("predictions.json says 5 rows, and lists files with ")


def test_rows_that_moved_from_file_to_file(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> None:
        found["parts"][0]["rows"] += 7
        found["parts"][1]["rows"] -= 7

    _, manifest, said = changed(runs, "parquet", tmp_path, change)
    unit = manifest["parts"][0]["unit"]
    assert said == f"predictions.json lists files with 17 rows of the unit {unit!r}, of which 10 were scored. {AGAIN}"


def test_a_part_that_is_gone_from_disk_and_manifest(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> str:
        part = found["parts"].pop()
        found["rows"] -= part["rows"]
        (run / "predictions" / part["path"]).unlink()
        units.append(part["unit"])
        return ""

    units: list[str] = []
    *_, said = changed(runs, "parquet", tmp_path, change)
    assert said == (
        f"predictions.json lists files with 0 rows of the unit {units[0]!r}, of which 10 were scored. {AGAIN}"
    )


# ---- dead letters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "best"])
def test_dead_letters_that_nobody_tells_of(runs: Path, tmp_path: Path, kind: str) -> None:
    def change(run: Path, found: Manifest) -> None:
        units.append(found["dead_parts"][0]["unit"])
        found |= {"dead": {}, "dead_parts": []}
        shutil.rmtree(run / "dead-letter")

    units: list[str] = []
    *_, said = changed(runs, kind, tmp_path, change)
    assert said == (
        f"predictions.json lists files with 0 dead letters of the unit {units[0]!r}, where the outputs lack 9. {AGAIN}"
    )


def test_the_number_of_dead_letters(runs: Path, tmp_path: Path) -> None:
    *_, said = changed(runs, "parquet", tmp_path, lambda run, found: found.update(dead={"gaps": 1}))
    assert said == f"predictions.json says 1 dead letter, and lists files with 19. {AGAIN}"


def test_whose_dead_letters_they_are(runs: Path, tmp_path: Path) -> None:
    *_, said = changed(runs, "parquet", tmp_path, lambda run, found: found.update(dead={"twice": 19}))
    assert said == (
        f"predictions.json says that the variant 'gaps' lacks an output in 0 rows, and it does in 19. {AGAIN}"
    )


def test_dead_letters_with_other_columns(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> None:
        replaced(run, found, partial(parquet, lambda table: table.drop_columns(["_reason"])), "dead_parts")

    _, manifest, said = changed(runs, "parquet", tmp_path, change)
    path = manifest["dead_parts"][0]["path"]
    assert said == (
        f"1 file not as the manifest says: dead-letter/{path} has the columns '_variant', '_file', '_row', 'id', "
        f"'country' and 'note' and not '_variant', '_reason', '_file', '_row', 'id', 'country' and 'note'. {AGAIN}"
    )


def test_dead_letters_with_other_rows(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> None:
        replaced(run, found, partial(parquet, lambda table: table.slice(0, 3)), "dead_parts")

    _, manifest, said = changed(runs, "csv", tmp_path, change)
    path = manifest["dead_parts"][0]["path"]
    assert said == f"1 file not as the manifest says: dead-letter/{path} has 3 rows and not 9. {AGAIN}"


# ---- what is in the files --------------------------------------------------------------------------------------------


def first_of(runs: Path, kind: str, tmp_path: Path, make: Callable[[bytes], bytes]) -> tuple[str, str]:
    """The first file's path, once it has this content, and what the audit says of it."""
    _, manifest, said = changed(runs, kind, tmp_path, lambda run, found: replaced(run, found, make))
    return manifest["parts"][0]["path"], said


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("parquet", partial(parquet, first_named_a)),
        ("parted", partial(parquet, first_named_a)),
        ("arrow", partial(ipc, first_named_a)),
        ("csv", lambda content: content.replace(b'"id"', b'"a"', 1)),
        ("jsonl", lambda content: content.replace(b'"id"', b'"a"', 1)),
    ],
)
def test_a_file_with_other_columns(runs: Path, tmp_path: Path, kind: str, make: Callable[[bytes], bytes]) -> None:
    path, said = first_of(runs, kind, tmp_path, make)
    others = "'note', 'twice' and 'gaps'" if kind == "parted" else "'country', 'note', 'twice' and 'gaps'"
    assert said == (
        f"1 file not as the manifest says: {path} has the columns 'a', {others} and not 'id', {others}. {AGAIN}"
    )


@pytest.mark.parametrize(
    ("kind", "make"), [("parquet", partial(parquet, ids_as_text)), ("arrow", partial(ipc, ids_as_text))]
)
def test_a_file_with_a_column_of_another_type(
    runs: Path, tmp_path: Path, kind: str, make: Callable[[bytes], bytes]
) -> None:
    path, said = first_of(runs, kind, tmp_path, make)
    assert said == (
        f"1 file not as the manifest says: {path} has the column 'id' of type string and not int64. {AGAIN}"
    )


def test_a_type_that_no_file_has(runs: Path, tmp_path: Path) -> None:
    _, manifest, said = changed(runs, "parquet", tmp_path, lambda run, found: found["columns"][-1].update(type="float"))
    path = sorted(part["path"] for part in manifest["parts"])[0]
    assert said == (
        f"4 files not as the manifest says: {path} has the column 'gaps' of type double and not float. {AGAIN}"
    )


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("parquet", partial(parquet, lambda table: table.slice(0, 3))),
        ("arrow", partial(ipc, lambda table: table.slice(0, 3))),
        ("jsonl", lambda content: b"".join(content.splitlines(keepends=True)[:3])),
    ],
)
def test_a_file_with_fewer_rows(runs: Path, tmp_path: Path, kind: str, make: Callable[[bytes], bytes]) -> None:
    path, said = first_of(runs, kind, tmp_path, make)
    assert said == f"1 file not as the manifest says: {path} has 3 rows and not 10. {AGAIN}"


def test_rows_of_csv_may_be_several_lines(runs: Path, tmp_path: Path) -> None:
    def three(content: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        parsing = pv.ParseOptions(newlines_in_values=True)
        pv.write_csv(pv.read_csv(pa.BufferReader(content), parse_options=parsing).slice(0, 3), sink)
        written: bytes = sink.getvalue().to_pybytes()
        assert written.count(b"\n") == 1 + 3 + 2  # a header, and two notes of two lines
        return written

    path, said = first_of(runs, "csv", tmp_path, three)
    assert said == f"1 file not as the manifest says: {path} has 3 rows and not 10. {AGAIN}"


def test_a_file_with_another_value(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> None:
        path = run / "predictions" / found["parts"][0]["path"]
        path.write_bytes(path.read_bytes().replace(b'"id":1,', b'"id":9,'))

    _, manifest, said = changed(runs, "jsonl", tmp_path, change)
    assert said == f"1 file not as the manifest says: {manifest['parts'][0]['path']} was altered. {AGAIN}"


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv.gz", "jsonl", "jsonl.zst"])
def test_a_file_of_another_kind(runs: Path, tmp_path: Path, kind: str) -> None:
    path, said = first_of(runs, kind, tmp_path, lambda content: b"hello")
    assert said.startswith(f"1 file not as the manifest says: {path} cannot be read (")
    assert said.endswith(f"). {AGAIN}")


def test_bytes_of_a_file(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> None:
        size.append(found["parts"][0]["bytes"])
        found["parts"][0]["bytes"] = 1

    size: list[int] = []
    _, manifest, said = changed(runs, "parquet", tmp_path, change)
    path = manifest["parts"][0]["path"]
    assert said == f"1 file not as the manifest says: {path} has {size[0]:,} bytes and not 1. {AGAIN}"


# ---- remedies --------------------------------------------------------------------------------------------------------


def resumed(run: Path) -> str:
    """What the audit says once all was written again."""
    (run / "predictions.json").unlink()
    assay.resume(run, executor="local", workers=1)
    return failure(run)


@pytest.mark.parametrize("kind", ["parquet", "parted", "best"])
def test_a_file_that_is_missing_is_written_again(runs: Path, tmp_path: Path, kind: str) -> None:
    def change(run: Path, found: Manifest) -> None:
        (run / "predictions" / found["parts"][0]["path"]).unlink()

    run, manifest, said = changed(runs, kind, tmp_path, change)
    assert said == f"1 file not as the manifest says: {manifest['parts'][0]['path']} is missing. {AGAIN}"
    assert resumed(run) == ""


@pytest.mark.parametrize("folder", ["predictions", "dead-letter"])
@pytest.mark.parametrize("name", ["part-x.parquet", "notes.txt", "country=US/part-x.parquet"])
def test_a_file_that_is_not_ours_is_to_be_moved_away(runs: Path, tmp_path: Path, folder: str, name: str) -> None:
    def change(run: Path, found: Manifest) -> None:
        (run / folder / name).parent.mkdir(exist_ok=True)
        (run / folder / name).write_text("x")

    run, _, said = changed(runs, "parquet", tmp_path, change)
    path = name if folder == "predictions" else f"{folder}/{name}"
    assert said == (
        f"1 file not as the manifest says: {path} is not listed. Move it out of {run}/{folder}, whose readers read it "
        "too."
    )
    (run / folder / name).rename(tmp_path / "away")
    assert failure(run) == ""


def test_a_folder_that_another_run_says_is_its_own(runs: Path, tmp_path: Path) -> None:
    def change(run: Path, found: Manifest) -> None:
        (run / "predictions" / claim_of("zzz")).touch()

    run, manifest, said = changed(runs, "parquet", tmp_path, change)
    assert said == (
        f"1 file not as the manifest says: _run-zzz in {run}/predictions says that the folder is of another run, not "
        f"of {manifest['run']!r}. Remove _run-zzz if that run is gone, else write its predictions to another folder."
    )
    (run / "predictions" / "_run-zzz").unlink()
    assert failure(run) == ""


def test_a_folder_that_nobody_says_is_his(runs: Path, tmp_path: Path) -> None:
    """Nothing is wrong with it; but the run would write nothing into it."""

    def change(run: Path, found: Manifest) -> None:
        (run / "predictions" / claim_of(found["run"])).unlink()

    run, manifest, said = changed(runs, "parquet", tmp_path, change)
    assert said == ""
    (run / "predictions" / manifest["parts"][0]["path"]).unlink()
    claim = claim_of(manifest["run"])
    assert failure(run).endswith(
        f"is missing. To have all written again, put an empty file {claim} into {run}/predictions, remove "
        "predictions.json of the run and resume it."
    )
    (run / "predictions" / claim).touch()
    assert resumed(run) == ""


@pytest.mark.parametrize("known", ["to the run", "to the audit"])
def test_a_type_that_only_one_of_run_and_audit_knows(tmp_path: Path, known: str) -> None:
    own = pa.ExtensionArray.from_storage(Mine(), pa.array([1, 2]))
    table = pa.table({"x": [0.1, 0.2], "own": own, "many": pa.ListArray.from_arrays([0, 1, 2], own)})
    tree = {
        "data": {"path": "rows.parquet"},
        "carry_over": "all",
        "predictions": {},
        "variants": [{"name": "same", "column": "x"}],
        "output": {"is": "score"},
    }
    try:
        pa.register_extension_type(Mine())
        pq.write_table(table, tmp_path / "rows.parquet")
        if known == "to the audit":
            pa.unregister_extension_type("assay.test.mine")
        assay.predict(build_spec(tree), base=tmp_path, out=tmp_path / "run", executor="local", workers=1)
        if known == "to the audit":
            pa.register_extension_type(Mine())
        else:
            pa.unregister_extension_type("assay.test.mine")
        assert failure(tmp_path / "run") == ""
    finally:
        with suppress(pa.ArrowKeyError):
            pa.unregister_extension_type("assay.test.mine")
