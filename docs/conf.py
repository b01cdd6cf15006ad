"""How the documentation is built: ``python -m sphinx -W --keep-going docs docs/_build/html``."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx_gallery.sorting import ExplicitOrder
from typer.testing import CliRunner

import localconformal
from localconformal.cli.app import COMMANDS
from localconformal.cli.app import app as command_line

sys.path.insert(0, str(Path(__file__).parent))

project = "localconformal"
author = "The localconformal developers"
project_copyright = "the localconformal developers"
version = release = localconformal.__version__
language = "en_GB"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "obj"

# Pages are Markdown; headings get anchors, so that other pages can link to them.
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
# Two pages whose names differ only in case are one file on some systems.
autosummary_filename_map = {
    "localconformal.audit.Audit": "localconformal.audit.Audit-class",
    "localconformal.metrics.HSIC": "localconformal.metrics.HSIC-class",
}

EXAMPLES = [
    "plot_first_steps.py",
    "plot_any_model.py",
    "plot_categorical.py",
    "plot_cross.py",
    "plot_groups.py",
    "plot_overlapping_groups.py",
    "plot_covariate_shift.py",
    "plot_bimodal.py",
    "plot_distribution.py",
    "plot_embeddings.py",
    "plot_million_rows.py",
    "plot_audit.py",
    "plot_monitor.py",
    "plot_adaptive.py",
    "plot_moving.py",
]
sphinx_gallery_conf = {
    "reset_modules": ("matplotlib", "pictures.use_style"),
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": ExplicitOrder(EXAMPLES),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "doc_module": ("localconformal",),
    "backreferences_dir": "gallery/backreferences",
    "prefer_full_module": {r"localconformal"},
}

html_theme = "pydata_sphinx_theme"
html_title = "localconformal"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": []}
html_show_sourcelink = False
html_math_renderer = "mathml"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

#: The path through the pages: what stands in the sidebar of each of the six entries at the top.
PATH = {
    "start": [
        *("gallery/index", "guide/rows", "guide/intervals", "guide/distribution"),
        *("guide/networks", "coming_from", "faq", "guide/index"),
    ],
    "which_method": ["methods", "laws", "guide/groups", "guide/cross", "sizes"],
    "trust": ["guide/guarantee", "audit", "report", "plots", "guide/explain"],
    "deploy": [
        *("command_line", "guide/monitor", "guide/adaptive", "guide/time_series", "guide/scale"),
        *("guide/threads", "security", "releases"),
    ],
    "api": ["glossary", "extending", "contributing", "changelog"],
    "background": [
        *("guide/equation", "engine", "results", "quality", "clear", "paper", "paper_results"),
        *("reliability", "decisions"),
    ],
}

VERBATIM = ".. code-block:: text"

#: Files outside docs/ that are pages here; on a code host the link as written is the right one.
PAGES = {
    "benchmarks/results/measurements.md": "results.md",
    "benchmarks/results/quality.md": "quality.md",
    "benchmarks/results/clear.md": "clear.md",
    "benchmarks/results/paper/standard/paper.md": "paper_results.md",
    "examples/README.txt": "gallery/index.rst",
}


def add_sidebar(app: Any, name: str, content: list[str]) -> None:
    """Give an entry at the top its pages of PATH, as a hidden table of contents."""
    pages = PATH.get(name, [])
    listed = "".join(f"   {page}\n" for page in pages)
    if pages and name == "api":
        # Before the many names of the reference.
        content[0] = content[0].replace("\n\n", f"\n\n.. toctree::\n   :hidden:\n\n{listed}\n", 1)
    elif pages:
        content[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{dedent(listed)}```\n"


def link_pages(app: Any, name: str, content: list[str]) -> None:
    """Turn links to such files into links to their pages."""
    for path, page in PAGES.items():
        content[0] = content[0].replace(f"](../{path})", f"]({page})")


def link_included(app: Any, file: Path, name: str, content: list[str]) -> None:
    """The same in the README, which is the landing page."""
    for path, page in PAGES.items():
        content[0] = content[0].replace(f"]({path})", f"](docs/{page})")


def write_help(app: Any) -> None:
    """What every command prints when asked for help, as files that a page includes."""
    folder = Path(app.srcdir, "generated", "help")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("localconformal", *(command.__name__ for command in COMMANDS)):
        arguments = ["--help"] if name == "localconformal" else [name, "--help"]
        asked = CliRunner().invoke(
            command_line, arguments, prog_name="localconformal", catch_exceptions=False
        )
        folder.joinpath(f"{name}.txt").write_text(asked.output, encoding="utf-8")


def keep_formulas(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Leave indented formulas as they are: lines of their own, not a quotation."""
    ends = [number for number, line in enumerate(lines) if line.startswith((":", ".. "))]
    for number in range(min(ends, default=len(lines)) - 1, 0, -1):
        if lines[number].startswith("    ") and not lines[number - 1].strip():
            lines[number:number] = [VERBATIM, ""]


def keep_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Leave |v| in a docstring a size: reStructuredText would look for a substitution "v"."""
    verbatim = False
    for number, line in enumerate(lines):
        if line.strip():
            starts = line.lstrip().startswith(">>>") or line == VERBATIM
            verbatim = starts or (verbatim and line.startswith(" "))
        if not verbatim:
            pieces = re.split(r"(``.*?``)", line)
            pieces[::2] = [piece.replace("|", r"\|") for piece in pieces[::2]]
            lines[number] = "".join(pieces)


def visit_math(translator: Any, node: Any, block: bool) -> None:
    """Formulas as MathML, which browsers draw by themselves: pages ask no other host."""
    translator.body.append(tex2mathml(node.astext(), as_block=block))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Read by Sphinx; numpydoc has done its part before docstrings come here."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(partial(visit_math, block=False), None),
        block_renderers=(partial(visit_math, block=True), None),
    )
    app.connect("builder-inited", write_help)
    app.connect("source-read", link_pages)
    app.connect("source-read", add_sidebar)
    app.connect("include-read", link_included)
    app.connect("autodoc-process-docstring", keep_formulas, priority=900)
    app.connect("autodoc-process-docstring", keep_bars, priority=901)
