"""The age experiment with a tiny network and made images: no face is read."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skorch")
pytest.importorskip("pooch")

from benchmarks.harness import PRESETS, run_experiment
from paper import age
from paper.ablations import MEDIAN, percents, quantiles
from paper.age import (
    AGE,
    ALL_TRAINING,
    CACHE_VARIABLE,
    FACES,
    HELD_OUT,
    LABEL,
    METHODS,
    MODEL,
    PREDICTED,
    TINY,
    Halved,
    Head,
    age_features,
    make_features,
    setting_of,
)
from paper.faces import FITTED, HELD, POOL, SOURCES, halves, made, parts_of
from paper.tables import OVERALL

SMOKE, STANDARD = PRESETS["smoke"], PRESETS["standard"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of these tests' own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        age_features.cache_clear()
        yield folder
    age_features.cache_clear()


@pytest.fixture(scope="module")
def features(cache):
    return age_features(TINY)


@pytest.fixture(scope="module")
def rows(features):
    return [{"repeat": 0, **row} for row in AGE.run({"repeat": 0}, SMOKE)]


@pytest.fixture(scope="module")
def overall(rows):
    return {row["method"]: row for row in rows if row.get("group") == OVERALL}


# ---- rows ----------------------------------------------------------------------------------


def test_real_runs_use_faces_and_smoke_does_not():
    assert setting_of(SMOKE) is TINY
    assert setting_of(STANDARD) is setting_of(PRESETS["full"]) is FACES
    assert TINY.source == "made"
    assert set(SOURCES) == {"made", "faces"}


def test_parts_are_disjoint_and_the_pool_is_halved_anew():
    parts = parts_of(23_707)
    assert np.sum(parts != POOL) == 14_224
    assert np.sum(parts == HELD) == round(0.15 * 14_224)
    assert np.sum(parts == FITTED) + np.sum(parts == HELD) == 14_224
    first, second = (halves(parts, repeat) for repeat in (0, 1))
    for calibration, test in (first, second):
        both = np.sort(np.concatenate([calibration, test]))
        np.testing.assert_array_equal(both, np.flatnonzero(parts == POOL))
    assert len(np.intersect1d(first[0], second[0])) < 0.6 * len(first[0])


def test_reference_rows_are_training_images_only(features):
    task = Halved.of(features, 0)
    pool = {tuple(row) for row in features.embedding[features.parts == POOL]}
    for reference, kept in ((ALL_TRAINING, (FITTED, HELD)), (HELD_OUT, (HELD,))):
        split = task.split("embedding", reference)
        assert len(split.train.y) == np.sum(np.isin(features.parts, kept))
        assert not pool & {tuple(row) for row in split.train.X}


# ---- the model -----------------------------------------------------------------------------


def test_the_frozen_head_is_the_networks_last_layer(features):
    head = Head(features.weights, features.offset)
    np.testing.assert_allclose(head.predict(features.embedding), features.mean, rtol=1e-4)
    assert features.embedding.shape == (len(features.age), 16)
    assert np.all(np.diff(features.quantiles, axis=1) >= 0)


def test_the_network_has_learned_the_age(features):
    pool = features.parts == POOL
    error = np.abs(features.age - features.mean)[pool].mean()
    constant = np.abs(features.age - np.median(features.age))[pool].mean()
    assert error < 0.6 * constant


def test_features_are_made_once_and_again_from_the_weights(features, cache):
    (folder,) = cache.iterdir()
    assert folder == TINY.folder
    weights, table = folder / "checkpoint.pt", folder / "features.npz"
    before = weights.stat().st_mtime_ns, table.stat().st_mtime_ns
    age_features.cache_clear()
    np.testing.assert_array_equal(age_features(TINY).mean, features.mean)
    assert (weights.stat().st_mtime_ns, table.stat().st_mtime_ns) == before
    table.write_bytes(b"spoilt")
    age_features.cache_clear()
    with pytest.raises(ValueError, match=r"features\.npz could not be read .* remove it"):
        age_features(TINY)
    table.unlink()
    again = age_features(TINY)
    np.testing.assert_array_equal(again.embedding, features.embedding)
    np.testing.assert_array_equal(again.quantiles, features.quantiles)
    assert again.facts == features.facts
    assert weights.stat().st_mtime_ns == before[0]


def test_ages_of_the_pool_change_nothing_that_is_learned(tmp_path, monkeypatch):
    """Neither the weights, nor the epoch that is kept, nor the quantile head has seen them."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    setting = replace(TINY, plan=replace(TINY.plan, epochs=2), quantile_epochs=2)
    images = made()
    first = make_features(setting, images)
    (setting.folder / "checkpoint.pt").unlink()
    others = np.where(parts_of(len(images.age)) == POOL, 99.0, images.age)
    second = make_features(setting, replace(images, age=others))
    for name in ("hidden", "embedding", "mean", "quantiles", "weights"):
        np.testing.assert_array_equal(first[name], second[name])


def test_no_image_is_in_the_cache(features):
    """Files hold n rows of at most a hidden layer, and weights."""
    with np.load(TINY.folder / "features.npz") as file:
        shapes = {name: file[name].shape for name in file.files}
    assert max(len(shape) for shape in shapes.values()) == 2
    assert max(shape[1] for shape in shapes.values() if len(shape) == 2) == TINY.head[0]


def test_another_setting_has_another_folder(cache):
    assert replace(TINY, dropout=0.1).folder != TINY.folder
    assert replace(TINY, plan=replace(TINY.plan, seed=2)).folder != TINY.folder


# ---- what a task measures ------------------------------------------------------------------


def test_every_method_is_measured_overall(overall, features):
    assert list(overall) == list(METHODS)
    pool = np.sum(features.parts == POOL)
    for name, row in overall.items():
        assert "failed" not in row, name
        assert 0.8 <= row["coverage"] <= 1.0, name
        assert row["length"] > 0
        assert row["n_calibration"] + row["n_test"] == pool
        # A score is at least the length; infinite intervals have none.
        assert row["infinite"] > 0 or row["interval_score"] >= row["length"]


def test_groups_of_each_kind_hold_every_test_image(rows, overall):
    for method in METHODS:
        mine = [row for row in rows if row.get("method") == method and "kind" in row]
        assert {row["kind"] for row in mine} == {"gender", "ethnicity", PREDICTED, LABEL}
        for kind in ("gender", "ethnicity", PREDICTED, LABEL):
            here = [row for row in mine if row["kind"] == kind]
            n = np.array([row["n"] for row in here])
            assert n.sum() == overall[method]["n_test"]
            coverage = np.average([row["coverage"] for row in here], weights=n)
            assert coverage == pytest.approx(overall[method]["coverage"])


def test_ablations_have_the_papers_settings_and_no_group(rows):
    found = {}
    for row in rows:
        if "ablation" in row:
            assert "group" not in row
            assert "failed" not in row
            found.setdefault(row["ablation"], []).append(row["variant"])
    assert found == {
        "mini-batch": [f"{percent} %" for percent in percents()],
        "bandwidth": list(quantiles()),
        "reference scores": [ALL_TRAINING, HELD_OUT],
    }


def test_the_ablations_agree_with_the_method_where_they_are_the_method(rows, overall):
    same = {"mini-batch": "100 %", "bandwidth": MEDIAN, "reference scores": ALL_TRAINING}
    for ablation, variant in same.items():
        (row,) = [r for r in rows if (r.get("ablation"), r.get("variant")) == (ablation, variant)]
        assert row["length"] == pytest.approx(overall["SLCP"]["length"]), ablation


def test_the_model_row_says_how_it_was_trained(rows):
    (row,) = [row for row in rows if row.get("kind") == MODEL]
    assert row["epochs"] == TINY.plan.epochs
    assert 1 <= row["best_epoch"] <= row["epochs"]
    assert 0.0 <= row["within"] <= 1.0
    assert row["training_seconds"] > 0


# ---- what is said --------------------------------------------------------------------------


def test_a_run_is_reported(features, tmp_path):
    output = run_experiment("age", AGE, SMOKE, tmp_path)
    assert any("not within reach" in note for note in output.notes)
    assert all(line.reason for line in output.lines)
    papers = {line.paper for line in output.lines if line.of["quantity"] == "length, years"}
    assert {4.65, 12.79, 23.14, 16.26, 32.47, 3.75, 8.47, 6.22} <= papers
    titles = " ".join(output.tables)
    assert "label-conditional" in titles
    by_group = output.tables["By group, with bands"]
    assert LABEL not in {row["kind"] for row in by_group}
    assert all(row["band from"] <= row["coverage"] <= row["to"] for row in by_group)


def test_lengths_of_the_paper_are_no_target_and_coverage_is():
    lines = age.report([], STANDARD).lines
    assert {line.ours for line in lines} == {None}
    rows = [
        {
            "repeat": repeat,
            "method": method,
            "group": OVERALL,
            "length": 20.0 + repeat / 10,
            "coverage": 0.9 + repeat / 1000,
            "interval_score": 30.0 + repeat / 10,
            "infinite": 0.0,
        }
        for method in METHODS
        for repeat in range(5)
    ]
    verdicts = {
        (line.of["method"], line.of["quantity"]): line.verdict
        for line in age.report(rows, STANDARD).lines
        if line.of["group"] == OVERALL and not line.of["variant"]
    }
    assert verdicts["SLCP", "length, years"] == "cannot be compared"
    assert verdicts["SLCP", "coverage, %"] == "reproduced"


def test_without_pytorch_one_sentence_says_what_is_left_out(monkeypatch):
    monkeypatch.setattr(age, "missing_packages", lambda: ["torch"])
    assert AGE.cases(STANDARD) == []
    (note,) = age.report([], STANDARD).notes
    assert "left out" in note
    assert "pip install" in note
