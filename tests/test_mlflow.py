"""MLflow serves what `predict_interval(output="frame")` answers, under the signature inferred."""

import numpy as np
import pandas as pd
import pytest

from localconformal import SplitConformalRegressor
from localconformal.tabular import fit_table_model
from registry import homes, light, optional, smooth_data

pytestmark = pytest.mark.ci

mlflow = optional("mlflow")
optional("mlflow.pyfunc")
flavour = optional("localconformal.mlflow")


def on_arrays():
    X, y = smooth_data(300, seed=0)
    return light(SplitConformalRegressor).fit(X, y), smooth_data(30, seed=1)[0]


def on_frames():
    model, (X, y) = light(SplitConformalRegressor, confidence_level=0.8), smooth_data(300, seed=0)
    rows = pd.DataFrame(smooth_data(30, seed=1)[0], columns=["a", "b"])
    return model.fit(pd.DataFrame(X, columns=["a", "b"]), y), rows.set_index(rows.index + 7)


def on_tables():
    options = {"method": "mondrian", "model": "linear", "groups": ["region"]}
    model = fit_table_model(homes(), "price", confidence_level=[0.9, 0.5], **options)
    return model, homes(30, seed=1).drop(columns=["key", "price"])


@pytest.fixture(params=[on_arrays, on_frames, on_tables])
def model_and_rows(request):
    return request.param()


# MLflow's, about integers that might be missing later, and about its own parts.
@pytest.mark.filterwarnings("ignore")
def test_the_round_trip_is_predict_interval_as_a_frame(model_and_rows, tmp_path):
    model, rows = model_and_rows
    flavour.save_model(model, tmp_path / "model", rows[:5])
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    expected = model.predict_interval(rows, output="frame")
    pd.testing.assert_frame_equal(served.predict(rows), expected, check_exact=True)
    for levels in ([0.5], [0.5, 0.95]):
        made = served.predict(rows, params={"confidence_level": levels})
        level = levels if len(levels) > 1 else levels[0]
        expected = model.predict_interval(rows, level, output="frame")
        pd.testing.assert_frame_equal(made, expected, check_exact=True)
    described = served.metadata.signature
    assert described.outputs.input_names() == ["lower", "upper"]
    if isinstance(rows, pd.DataFrame):
        assert described.inputs.input_names() == list(rows)
        with pytest.raises(mlflow.MlflowException, match=f"missing inputs.*{rows.columns[-1]}"):
            served.predict(rows.drop(columns=rows.columns[-1]))
    np.testing.assert_array_equal(
        served.get_raw_model().predict_interval(rows), model.predict_interval(rows)
    )
    files = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert "model.skops" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle"))]


@pytest.mark.filterwarnings("ignore")
def test_a_logged_model_is_the_saved_one(tmp_path, monkeypatch):
    model, rows = on_frames()
    # MLflow asks for this where its store is a folder.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    try:
        with mlflow.start_run():
            logged = flavour.log_model(model, "intervals", rows[:5])
        made = mlflow.pyfunc.load_model(logged.model_uri).predict(rows)
    finally:
        mlflow.set_tracking_uri(before)
    pd.testing.assert_frame_equal(made, model.predict_interval(rows, output="frame"))


def test_categories_are_text_to_models_of_tables_and_refused_for_others(tmp_path):
    rows = homes(30, seed=1).drop(columns=["key", "price"]).astype({"region": "category"})
    model = fit_table_model(homes(), "price", method="split", model="linear")
    flavour.save_model(model, tmp_path / "model", rows[:5])
    served = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(rows.astype({"region": str}))
    pd.testing.assert_frame_equal(served, model.predict_interval(rows, output="frame"))
    with pytest.raises(ValueError, match=r"categories in 'region'.*fit_table_model"):
        flavour.save_model(model.regressor, tmp_path / "other", rows[:5])
