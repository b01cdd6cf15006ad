"""The look of the examples' pictures: Sphinx-Gallery calls this by its name before each example."""

from pathlib import Path
from typing import Any

import matplotlib.style


def use_style(gallery_conf: Any, name: str) -> None:
    """That of all other pictures."""
    matplotlib.style.use(Path(__file__).parent / "pictures.mplstyle")
