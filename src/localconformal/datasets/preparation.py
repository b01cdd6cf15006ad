"""From files to features, response and groups, a function each.

``prepare(frame, as_in_paper)`` gives X, y and a frame of group columns. With ``as_in_paper`` the
steps are those of the code of CQR, which SLCP took over; what is odd in them is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: X, y, groups
Prepared = tuple[Any, Any, Any]
Prepare = Callable[[Any, bool], Prepared]

STAR_SCORES = [part + grade for part in ("read", "math") for grade in "k123"]
#: Kind of column -> its words in the order of their codes 0, 1, ...; words of one code together.
STAR_CODES = {
    "gender": ["female", "male"],
    "ethnicity": ["cauc", "afam", "asian", "hispanic", "amindian", "other"],
    "star": ["regular", "small", "regular+aide"],
    "lunch": ["free", "non-free"],
    "school": ["inner-city", "suburban", "rural", "urban"],
    "degree": ["bachelor", "master", "specialist", "master+|phd"],
    "ladder": [
        *["level1", "level2", "level3", "apprentice", "probation"],
        *["pending|noladder", "notladder"],
    ],
    "tethnicity": ["cauc", "afam", "asian"],
}
#: Named by UCI as no predictors.
COMMUNITY_IDENTIFIERS = ["state", "county", "community", "communityname", "fold"]


def plain(target: str, *, drop: Sequence[str] = (), groups: Sequence[str] = ()) -> Prepare:
    """A table of numbers that needs nothing; the same in both versions."""

    def prepare(frame: Any, as_in_paper: bool) -> Prepared:
        X = frame.drop(columns=[target, *drop])
        return X, frame[target], frame[list(groups)]

    return prepare


def as_categories(frame: Any, columns: Sequence[str]) -> Any:
    """These columns as pandas categories."""
    return frame.astype(dict.fromkeys(columns, "category"))


def bike(frame: Any, as_in_paper: bool) -> Prepared:
    """Hourly rentals; casual and registered sum to the target and are no features."""
    import pandas as pd

    when = pd.to_datetime(frame["datetime"])
    X = frame.drop(columns=["datetime", "casual", "registered", "count"])
    X["hour"], X["dayofweek"] = when.dt.hour, when.dt.day_of_week
    X["month"], X["year"] = when.dt.month, when.dt.year
    coded = ["season", "weather"]
    if as_in_paper:
        X["year"] = X["year"] - X["year"].min()
        X = pd.get_dummies(X, columns=coded, dtype=float)
    else:
        X = as_categories(X, coded)
    return X, frame["count"], frame[["weather"]]


def star(frame: Any, as_in_paper: bool) -> Prepared:
    """Sum of eight test scores.

    As in the paper: rows with any missing value go (2,161 of 11,598 stay), words become integer
    codes, and an index off by one keeps the row number as a feature and loses ``lunchk``.
    """
    import pandas as pd

    kept = frame.dropna(subset=None if as_in_paper else STAR_SCORES)
    y, groups = kept[STAR_SCORES].sum(axis=1), kept[["ethnicity"]]
    names = list(frame.columns)
    features = names[1:8] + names[16:]
    if as_in_paper:
        features = names[:8] + names[17:]
    X = kept[features]
    words = [name for name in features if not pd.api.types.is_numeric_dtype(X[name])]
    if as_in_paper:
        return X.assign(**{name: star_codes(X[name]) for name in words}), y, groups
    return as_categories(X, words), y, groups


def star_codes(column: Any) -> Any:
    """The codes of a column of words, by the name of its kind (``ladder`` for ``ladder2``)."""
    kind = column.name if column.name in STAR_CODES else column.name[:-1]
    code_of = {
        word: code for code, words in enumerate(STAR_CODES[kind]) for word in words.split("|")
    }
    return column.map(code_of).astype(int)


def community(frame: Any, as_in_paper: bool) -> Prepared:
    """Violent crimes, normalised.

    As in the paper: the one missing OtherPerCap becomes the mean of all rows, and every other
    column with a missing value goes.
    """
    import pandas as pd

    numbers = frame.drop(columns=COMMUNITY_IDENTIFIERS).astype(float)
    if as_in_paper:
        other = numbers["OtherPerCap"]
        numbers = numbers.assign(OtherPerCap=other.fillna(other.mean())).dropna(axis="columns")
    target = "ViolentCrimesPerPop"
    share = numbers["racepctblack"].rank(method="first")
    fifth = pd.qcut(share, 5, labels=["lowest", "low", "middle", "high", "highest"])
    groups = pd.DataFrame({"racepctblack": fifth.astype(str)})
    return numbers.drop(columns=target), numbers[target], groups


def facebook(first_row_is_lost: bool) -> Prepare:
    """Comments in the next hours.

    The file has no header, and the papers' code reads one: the first row is lost to it.
    """

    def prepare(frame: Any, as_in_paper: bool) -> Prepared:
        kept = frame.iloc[1:] if as_in_paper and first_row_is_lost else frame
        X = kept.drop(columns="target")
        if not as_in_paper:
            X = as_categories(X, ["page_category"])
        return X, kept["target"], kept[["page_category"]]

    return prepare


#: Outcomes, and the counts whose sum is the target: never features.
MEPS_LEAKS = {
    "meps_2015_util": ["HEALTHEXP", "OBTOTV15", "OPTOTV15", "ERTOT15", "IPNGTD15", "HHTOTD15"],
    "meps_2017_util": [
        *["TOTSLF", "OBTOTV", "OPTOTV", "IPDIS", "IPNGTD", "RXTOT", "ERTOT", "HHTOTD"]
    ],
}
#: Columns that are numbers; the others are codes.
MEPS_NUMBERS = {
    "meps_2015_util": ["AGE31X", "PCS42", "MCS42", "K6SUM42", "PERSONWT", "INCOME_M"],
    "meps_2017_util": ["VARSTR", "PERWT", "TTLP", "AGE53X", "EDUCYR", "VPCS42", "VMCS42"],
}
#: Numbers that may be negative: an income can be a loss, elsewhere a negative code means missing.
MEPS_SIGNED = ["INCOME_M", "TTLP"]
MEPS_REGION = {"meps_2015_util": "REGION", "meps_2017_util": "REGION53"}


def meps(file: str, panel: int) -> Prepare:
    """Use of health care in one panel of a survey; as in the paper every code is one-hot."""

    def prepare(frame: Any, as_in_paper: bool) -> Prepared:
        import pandas as pd

        kept = frame[frame["PANEL"] == panel].drop(columns=["PANEL", *MEPS_LEAKS[file]])
        X, numbers = kept.drop(columns="UTILIZATION"), MEPS_NUMBERS[file]
        coded = [name for name in X if name not in numbers]
        if as_in_paper:
            X = pd.get_dummies(X, columns=coded, dtype=float)
        else:
            unsigned = [name for name in numbers if name not in MEPS_SIGNED]
            X = X.astype(dict.fromkeys(unsigned, float))
            X[unsigned] = X[unsigned].mask(X[unsigned] < 0)
            X = as_categories(X, coded)
        return X, kept["UTILIZATION"], kept[[MEPS_REGION[file]]]

    return prepare
