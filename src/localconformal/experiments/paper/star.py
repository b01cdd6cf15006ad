"""Coverage by ethnicity in STAR."""

from localconformal.experiments.paper._subgroups import Subgroups

EXPERIMENT = Subgroups(
    title="STAR: coverage by ethnicity",
    table="table_star",
    dataset="star",
    groups={
        "cauc": "caucasian_1653",
        "afam": "african_american_498",
        "asian": "asian_7",
        "hispanic": "hispanic_2",
        "other": "other_1",
    },
    cannot="the paper's groups add up to all 2161 rows, training and calibration rows included",
).experiment()
