"""In a notebook: progress stands below the cell while it runs, and a fitted model shows itself."""

import pytest

from registry import optional

pytestmark = pytest.mark.ci

CELL = """
import time
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from localconformal import SplitConformalRegressor, progress

progress.PAUSE = 0.05
with progress.stage("a long computation"):
    time.sleep(1.0)
X, y = load_diabetes(return_X_y=True)
SplitConformalRegressor(Ridge(), random_state=0).fit(X, y)
"""


def test_a_cell_shows_progress_and_the_promise():
    optional("ipykernel")
    client, nbformat = optional("nbclient"), optional("nbformat")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    told = []

    class Watching(client.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            told.append(msg)
            return super().process_message(msg, cell, cell_index)

    Watching(book, timeout=120, kernel_name="python3").execute()
    lines = [
        message["content"]["data"]["text/plain"]
        for message in told
        if message["msg_type"] in ("display_data", "update_display_data")
    ]
    assert any("a long computation" in line for line in lines)
    assert lines[-1] == ""
    (model,) = [one for one in book.cells[0].outputs if one.output_type == "execute_result"]
    assert "A new y lies in its interval" in model.data["text/html"]
    assert not [one for one in book.cells[0].outputs if one.output_type == "stream"]
