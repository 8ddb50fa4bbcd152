"""What a reader must be told beside the numbers, as known before the first row is scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assay.pipeline.asked import output_kinds
from assay.protocols import Source
from assay.records import Plan
from assay.spec.model import Spec


def notes_of(spec: Spec, source: Source, plan: Plan) -> tuple[str, ...]:
    """Sentences, in the order in which they are shown."""
    return (*_about_spec(spec, source), *_about_batches(spec, plan), *_about_twins(plan.fingerprints))


def _about_spec(spec: Spec, source: Source) -> Iterator[str]:
    time = spec.data.time
    if time is not None and source.first_values(time) is None:
        yield f"data.time has no effect: the files do not record the range of {time!r}."
    if not spec.metrics and None in output_kinds(spec).values():
        yield (
            "Only ranking is measured, since the spec does not say what the scores are. Say that they are a "
            "probability (output: {is: probability}, or --output probability) for log loss and calibration."
        )
    if spec.data.cluster is None:
        yield (
            "No cluster is named, so every row counts as independent. If a user or session has several rows, name it "
            "as the cluster: intervals are too narrow otherwise."
        )


def _about_batches(spec: Spec, plan: Plan) -> Iterator[str]:
    if spec.execution.micro_batch is not None and all(rows is None for rows in plan.batch_rows.values()):
        yield "execution.micro_batch has no effect: no variant is of a kind whose scores depend on rows per call."


def _about_twins(fingerprints: Mapping[str, str]) -> Iterator[str]:
    """Of each set of variants with one fingerprint."""
    twins: dict[str, list[str]] = {}
    for variant, fingerprint in fingerprints.items():
        twins.setdefault(fingerprint, []).append(variant)
    for names in twins.values():
        if len(names) > 1:
            yield f"{' and '.join(map(repr, names))} are the same model: weights, code and settings are equal."
