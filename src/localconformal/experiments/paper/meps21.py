"""Coverage by region in the medical expenditure survey."""

from localconformal.experiments.paper._subgroups import Subgroups

EXPERIMENT = Subgroups(
    title="MEPS: coverage by region",
    table="table_meps21",
    dataset="meps_2017_util_21",
    groups={
        "1": "region1_997",
        "2": "region2_1232",
        "3": "region3_2368",
        "4": "region4_1666",
    },
    cannot="a stand-in for meps_21, whose file is not to be had",
).experiment()
