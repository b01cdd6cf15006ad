"""A preparation is a function of training rows and the row alone, and says what it did."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline

from localconformal.io.tables import TableError, read_table, table_batches
from localconformal.preparation import FORMATS, MOST_LABELS, TablePreparation, read_target
from registry import ci_but

N = 120
DAYS = [*FORMATS[1:-2], "%Y-%m-%d", "%Y%m%dT%H%M%S", "%Y-%m-%dT%H:%M:%SZ", "%Y%m%d"]


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    times = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 10**7, n), unit="s")
    return pd.DataFrame(
        {
            "number": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(size=n)),
            "infinite": np.where(np.arange(n) % 10 == 0, np.inf, rng.normal(size=n)),
            "flag": rng.choice([True, False], n),
            "label": rng.choice(["a", "b", None], n),
            "time": times,
            "written": times.strftime("%d/%m/%Y %H:%M"),
            "same": 1,
            "empty": np.full(n, np.nan),
            "name": [f"person {i} {seed}" for i in range(n)],
            "id": np.arange(n),
            "almost": np.where(np.arange(n) % 10 == 0, "?", (np.arange(n) % 7).astype(str)),
            "comma": [f"{i % 5},5" for i in range(n)],
        }
    )


def learn(frame):
    return TablePreparation().fit(frame)


def used(frame):
    return [reader.name for reader in learn(frame).readers_]


def note_about(preparation, name):
    return " ".join(note for note in preparation.notes_ if repr(name) in note)


class TestWhatIsLearned:
    def test_what_is_made_is_numbers_and_categories_and_everything_done_is_said(self):
        said = {"same": "same value", "empty": "no value", "name": "identifier",
                "id": "numbers the rows", "number": "Missing values are kept",
                "flag": "1 (true) and 0 (false)", "label": "categories", "time": "Read as a time",
                "written": "written %d/%m/%Y %H:%M",
                "almost": "most of the texts are numbers", "comma": "decimal comma"}  # fmt: skip
        learned = learn(table())
        for name, words in said.items():
            assert words in note_about(learned, name)
        prepared, lost = learned.read(table())
        assert {str(kind) for kind in prepared.dtypes} == {"float64", "category"}
        assert lost == {"infinite": N // 10}
        assert not {"same", "empty", "name", "id"} & set(prepared)
        assert prepared["number"].isna().equals(table()["number"].isna())
        assert prepared["flag"].isin([0.0, 1.0]).all()

    def test_parts_of_a_time_are_those_of_the_calendar_that_differ(self):
        raw = table()
        prepared = learn(raw[["time"]]).transform(raw)
        assert prepared["time.month"].tolist() == raw["time"].dt.month.tolist()
        assert prepared["time.weekday"].tolist() == raw["time"].dt.day_of_week.tolist()
        hours = raw["time"].dt.hour + raw["time"].dt.minute / 60 + raw["time"].dt.second / 3600
        np.testing.assert_allclose(prepared["time.hour"], hours)
        days = pd.DataFrame({"day": ["2020-05-01", "2020-05-02", "2020-05-09"]})
        assert {"day.hour", "day.month"}.isdisjoint(learn(days).transform(days))

    def test_labels_beyond_the_most_frequent_are_missing(self):
        labels = [f"l{i:04}" for i in range(MOST_LABELS + 50) for _ in range(4)] + ["rare"]
        frame = pd.DataFrame({"label": labels})
        learned = learn(frame)
        prepared, lost = learned.read(frame)
        assert (prepared["label"].nunique(), lost["label"]) == (MOST_LABELS, 4 * 50 + 1)
        assert "most frequent" in note_about(learned, "label")
        assert f"among the {MOST_LABELS} most frequent labels" in learned.lost_notes(lost)[0]

    def test_whole_numbers_named_like_an_identifier_are_left_out(self):
        size = np.random.default_rng(0).normal(size=N)
        for name in ("ID", "user id", "PassengerId", "id_client", "Unnamed: 0", "ORDER_NO"):
            frame = pd.DataFrame({name: np.arange(N)[::-1] + 7_000, "size": size})
            assert used(frame) == ["size"]
            assert "identifier" in note_about(learn(frame), name)
            assert used(frame.assign(**{name: np.arange(N) // 2})) == [name, "size"]
        for name in ("paid", "humidity", "number_of_visitors"):
            assert used(pd.DataFrame({name: np.arange(N)})) == [name]

    def test_numbers_that_floats_do_not_tell_apart_are_not_called_the_same(self):
        frame = pd.DataFrame({"near": 2**60 + np.arange(N), "x": np.arange(N)})
        assert used(frame) == ["x"]
        assert "beyond the 15" in note_about(learn(frame), "near")

    def test_nothing_left_or_no_frame_is_one_sentence(self):
        with pytest.raises(TableError, match="distinguishes training rows"):
            learn(pd.DataFrame({"a": [1, 1], "b": [None, None]}))
        with pytest.raises(TableError, match="got ndarray; expected a frame"):
            learn(np.zeros((3, 2)))


def test_it_is_a_transformer_of_scikit_learn_for_polars_too():
    raw = table().drop(columns="label")
    boosting = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype")
    model = make_pipeline(TablePreparation(), boosting)
    y = raw["number"].fillna(0.0) + raw["flag"]
    fitted = clone(model).fit(raw, y)
    assert fitted.score(raw, y) > 0.5
    prepared = fitted[0].transform(raw)
    assert fitted[0].get_feature_names_out().tolist() == list(prepared)
    assert not hasattr(model[0], "readers_")
    pd.testing.assert_frame_equal(fitted[0].transform(pl.from_pandas(raw)), prepared)


class TestLaterRows:
    def test_rows_are_read_one_by_one(self):
        learned, raw = learn(table()), table(seed=1)
        apart = pd.concat([learned.transform(raw.iloc[[i]]) for i in range(20)])
        pd.testing.assert_frame_equal(learned.transform(raw).iloc[:20], apart)

    def test_the_order_of_training_rows_decides_nothing(self):
        one, other = learn(table()), learn(table().sample(frac=1.0, random_state=1))
        assert (one.readers_, one.notes_) == (other.readers_, other.notes_)

    def test_unknown_labels_and_unreadable_times_are_missing_and_counted(self):
        raw = table()[:3].assign(label="new", written=["x", "31.31.2021", None])
        prepared, lost = learn(table()).read(raw)
        assert prepared["label"].isna().all()
        assert prepared["written.days"].isna().all()
        assert (lost["label"], lost["written"]) == (3, 2)

    def test_a_column_that_is_gone_or_of_another_kind_is_one_sentence(self):
        raw = table()
        changed = {
            "no column 'number'": raw.drop(columns="number"),
            "'number' holds 'x'": raw.assign(number="x"),
            "'time' holds numbers": raw.assign(time=1.5),
        }
        for words, rows in changed.items():
            with pytest.raises(TableError, match=words):
                learn(raw).transform(rows)

    @pytest.mark.parametrize("learned_from", ["csv", "parquet"])
    def test_formats_and_batches_give_the_same_numbers(self, tmp_path, learned_from):
        raw = table()
        raw.to_csv(tmp_path / "t.csv", index=False)
        raw.to_parquet(tmp_path / "t.parquet")
        whole = read_table(tmp_path / f"t.{learned_from}")
        learned = learn(whole)
        for used_on in ("csv", "parquet"):
            batches = table_batches(tmp_path / f"t.{used_on}", learned.stored_types, rows=50)
            found = pd.concat([learned.transform(batch) for batch in batches])
            pd.testing.assert_frame_equal(found, learned.transform(whole))


class TestTimes:
    def test_zones_become_universal_time_and_clocks_are_times(self):
        zones = pd.DataFrame({"at": ["2020-01-01T00:30:00+02:00", "2020-01-01T00:00:00Z"]})
        assert learn(zones).transform(zones)["at.hour"].tolist() == [22.5, 0]
        times = pd.Series(pd.to_datetime(["2020-01-01 01:30:00", "2020-01-01 23:45:00"]))
        for clock in FORMATS[-2:]:
            frame = pd.DataFrame({"at": times.dt.strftime(clock)})
            assert learn(frame).transform(frame)["at.hour"].tolist() == [1.5, 23.75]

    def test_other_texts_are_no_times(self):
        for texts in (["a", "b"], ["2020-01-01", "x"], ["1-2-3-4", "2"], ["12", "13"]):
            frame = pd.DataFrame({"text": texts})
            assert list(learn(frame).transform(frame)) == ["text"]

    @pytest.mark.parametrize("written", ci_but(DAYS[::7], DAYS))
    def test_dates_as_people_write_them(self, written):
        days = pd.Series(pd.to_datetime(["2014-10-13 13:30", "2015-01-31 13:30"]))
        frame = pd.DataFrame({"sold": days.dt.strftime(written)})
        prepared, lost = learn(frame).read(frame)
        assert prepared["sold.month"].tolist() == [10, 1]
        assert prepared["sold.day"].tolist() == [13, 31]
        assert not lost

    def test_an_order_that_rows_do_not_tell_is_said(self):
        either, told = (
            learn(pd.DataFrame({"sold": ["01/02/2020", day]}))
            for day in ("03/04/2020", "31/05/2020")
        )
        assert "are ambiguous" in note_about(either, "sold")
        assert "are ambiguous" not in note_about(told, "sold")
        made = either.transform(pd.DataFrame({"sold": ["05/06/2020"]}))
        assert made["sold.day"].tolist() == [5]

    @pytest.mark.parametrize(("suffix", "gap"), [("csv", 7), ("parquet", None), ("parquet", 7)])
    def test_days_as_whole_numbers_by_the_name_of_their_column(self, tmp_path, suffix, gap):
        days = pd.date_range("2014-10-13", periods=60, freq="9D")
        numbers = pd.Series(days.strftime("%Y%m%d").astype(int))
        numbers = numbers if gap is None else numbers.where(np.arange(60) != gap)
        raw = pd.DataFrame({"saleDate": numbers, "size": numbers, "x": np.arange(60.0)})
        path = tmp_path / f"t.{suffix}"
        raw.to_csv(path, index=False) if suffix == "csv" else raw.to_parquet(path)
        learned = learn(read_table(path))
        assert "written %Y%m%d" in note_about(learned, "saleDate")
        assert "could be days" in note_about(learned, "size")
        prepared, lost = learned.read(raw)
        assert not lost
        known = numbers.notna()
        assert (prepared["saleDate.month"][known] == days.month[known]).all()
        for batch in table_batches(path, learned.stored_types, rows=7):
            pd.testing.assert_frame_equal(learned.transform(batch), prepared.loc[batch.index])

    def test_numbers_of_which_one_is_no_day_are_numbers(self):
        for odd in (20141331, 2014101, 12341013, 20141013.5, -20141013):
            learned = learn(pd.DataFrame({"date": [20141013, 20150131, odd]}))
            assert list(learned.transform(pd.DataFrame({"date": [1.5]}))) == ["date"]


def test_numbers_written_as_text_are_a_target_and_others_are_not_known():
    values, known = read_target(pd.Series(["1", None, "inf", "2.5"], name="y"))
    assert (known.tolist(), values[known].tolist()) == ([True, False, False, True], [1, 2.5])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["1", "many", "2"], "holds 'many' \\(row 1"),
        ([True, False, True], "holds flags"),
        (pd.to_datetime(["2020-01-01"] * 3), "holds times"),
        ([5, 5, 5], "is 5 in every row"),
        ([2**60, 2**60 + 1, 2**60 + 2], "goes from 1152921504606846976 to 1152921504606846978"),
        ([np.nan, np.nan, np.nan], "no finite value"),
    ],
)
def test_what_is_no_target_is_one_sentence(values, words):
    with pytest.raises(TableError, match=words):
        read_target(pd.Series(values, name="y"))
