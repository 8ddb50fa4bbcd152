"""Gates: rules over comparisons, judged with one correction for errors over all variants and gates.

`check_gates` before the run, `judge` after it, `run_outcome` and `exit_code` at the end.
"""

from __future__ import annotations

from assay.gates.judge import exit_code, judge, run_outcome
from assay.gates.rules import check_gates

__all__ = ["check_gates", "exit_code", "judge", "run_outcome"]
