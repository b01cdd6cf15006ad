"""Medical expenditure panel survey: use of health care, by region.

These are stand-ins: the survey's files of other years or filters than the ones of CQR and SLCP,
so their figures must not be compared with those printed for meps_19, meps_20 and meps_21.
"""

import pandas as pd

from benchmarks.quality.datasets.files import read
from benchmarks.quality.datasets.tabular import rows

#: Outcomes, and the counts whose sum is the target.
LEAKS_2015 = ["HEALTHEXP", "OBTOTV15", "OPTOTV15", "ERTOT15", "IPNGTD15", "HHTOTD15"]
LEAKS_2017 = ["TOTSLF", "OBTOTV", "OPTOTV", "IPDIS", "IPNGTD", "RXTOT", "ERTOT", "HHTOTD"]
#: Columns that are numbers and no codes.
NUMBERS_2015 = ["AGE31X", "PCS42", "MCS42", "K6SUM42", "PERSONWT", "INCOME_M"]
NUMBERS_2017 = ["VARSTR", "PERWT", "TTLP", "AGE53X", "EDUCYR", "VPCS42", "VMCS42"]


def panel(file, number, leaks, numbers, region):
    """One panel, codes one-hot."""
    frame = read(file)
    frame = frame[frame["PANEL"] == number].drop(columns=["PANEL", *leaks])
    features = frame.drop(columns="UTILIZATION")
    coded = [column for column in features if column not in numbers]
    return rows(pd.get_dummies(features, columns=coded), frame["UTILIZATION"], frame[region])


DATASETS = {
    "meps_19_standin": lambda: panel("meps_2015_util", 19, LEAKS_2015, NUMBERS_2015, "REGION"),
    "meps_21_standin": lambda: panel("meps_2017_util", 21, LEAKS_2017, NUMBERS_2017, "REGION53"),
}
