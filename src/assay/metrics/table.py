"""Which class each metric name stands for. A new metric is a file and a line here."""

from __future__ import annotations

TABLE = {
    "count": "assay.metrics.counts:Count",
    "positive_rate": "assay.metrics.counts:PositiveRate",
    "mean_score": "assay.metrics.counts:MeanScore",
    "log_loss": "assay.metrics.probability:LogLoss",
    "normalised_entropy": "assay.metrics.probability:NormalisedEntropy",
    "brier": "assay.metrics.probability:Brier",
    "auc": "assay.metrics.ranking:AUC",
    "average_precision": "assay.metrics.ranking:AveragePrecision",
    "ece": "assay.metrics.calibration:ECE",
    "calibration_ratio": "assay.metrics.probability:CalibrationRatio",
    "accuracy": "assay.metrics.threshold:Accuracy",
    "precision": "assay.metrics.threshold:Precision",
    "recall": "assay.metrics.threshold:Recall",
    "f1": "assay.metrics.threshold:F1",
    "rmse": "assay.metrics.regression:RMSE",
    "mae": "assay.metrics.regression:MAE",
}
"""Name -> "module:class"; the class takes its parameters by keyword."""
