"""Coverage by weather in the bike data."""

from localconformal.experiments.paper._subgroups import Subgroups

EXPERIMENT = Subgroups(
    title="Bike: coverage by weather",
    table="table_bike",
    dataset="bike",
    groups={"1": "clear_7192", "2": "mist_2834", "3": "snow_859"},
    cannot="the paper's groups add up to all 10885 rows, training and calibration rows included",
).experiment()
