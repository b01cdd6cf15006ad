"""``localconformal reproduce``: the paper's tables and figures, beside the printed numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from localconformal.cli.console import INTERRUPTED, SOME_FAILED, Json, complain, progress, show
from localconformal.cli.layout import empty_table

ALL = "all"
PAGES = ("paper.md", "paper.html")
PRESET_HELP = "smoke (a minute or two), standard (5 repeats) or full (20 repeats, all rows)."


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="An experiment, or all; without it, their list.", show_default=False),
    ] = None,
    preset: Annotated[str, typer.Option(help=PRESET_HELP)] = "standard",
    out: Annotated[
        Path, typer.Option(help="Folder of results; one for each preset.", file_okay=False)
    ] = Path("localconformal-results"),
    jobs: Annotated[int, typer.Option(help="Tasks at a time.", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """Run the SLCP paper's experiments, beside its numbers.

    What is finished is kept: a run that was stopped goes on where it was.

    \b
    Example:  localconformal reproduce table1 --preset smoke
              localconformal reproduce all --jobs 2 --out results
    """
    from localconformal.experiments import PRESETS, experiment_names, load_experiment
    from localconformal.experiments.claims import write_claims

    if name is None:
        titles = {one: load_experiment(one).title for one in experiment_names()}
        width = max(map(len, titles))
        show({"experiments": titles}, [f"{one:<{width}}  {titles[one]}" for one in titles], as_json)
        return
    if preset not in PRESETS:
        raise ValueError(f"There is no preset {preset!r}; choose one of {', '.join(PRESETS)}.")
    if name not in (ALL, *experiment_names()):
        known = ", ".join((ALL, *experiment_names()))
        raise ValueError(f"There is no experiment {name!r}; choose one of {known}.")
    names = experiment_names() if name == ALL else [name]
    folder = out / preset
    # A folder that cannot be written to is told before hours are spent.
    folder.mkdir(parents=True, exist_ok=True)
    try:
        records = [run_one(one, PRESETS[preset], folder, jobs) for one in names]
    except KeyboardInterrupt:
        complain("Interrupted; what is finished is kept, and the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    # What holds in the paper, claim by claim: from all that the folder has by now.
    pages = [write_claims(folder, PRESETS[preset], folder / page) for page in PAGES]
    record = {"preset": preset, "experiments": records, "pages": [str(page) for page in pages]}
    show(record, [overview(records), *table_lines(records, pages[-1])], as_json)
    if any(one["failed"] for one in records):
        raise typer.Exit(SOME_FAILED)


def run_one(name: str, preset: Any, folder: Path, jobs: int) -> dict[str, Any]:
    """Run an experiment, write its files, and count its verdicts."""
    from localconformal.experiments import load_experiment, run_experiment
    from localconformal.experiments.render import verdict_counts, write_output

    title = load_experiment(name).title
    with told() as on_progress:
        output = run_experiment(name, preset, folder, jobs, on_progress)
    paths = write_output(name, title, output, folder)
    counts = verdict_counts(output.lines)
    files = [str(path) for path in paths]
    failed = on_progress.failed
    return {"name": name, "title": title, "verdicts": counts, "failed": failed, "files": files}


@contextmanager
def told() -> Iterator[Any]:
    """A bar with the time left on a terminal; sentences on standard error anywhere, each once."""
    from localconformal.experiments import Progress

    with progress() as bar:

        class Bar(Progress):
            def __init__(self) -> None:
                self.said: set[str] = set()
                self.failed = 0

            def start(self, experiment: str, waiting: int, total: int) -> None:
                left = f"{waiting} of {total} tasks" if waiting else "none of its tasks"
                self.say(f"{experiment}: {left} left to run.")
                self.task = bar.add_task(experiment, total=total, completed=total - waiting)

            def done(self, case: Mapping[str, Any], error: str | None) -> None:
                self.failed += error is not None
                bar.update(self.task, advance=1)

            def say(self, sentence: str) -> None:
                if sentence not in self.said:
                    self.said.add(sentence)
                    complain(sentence)

        yield Bar()


def overview(records: list[dict[str, Any]]) -> Any:
    """A row for each experiment."""
    counted: dict[str, Literal["left", "right"]] = dict.fromkeys(records[0]["verdicts"], "right")
    table = empty_table({"experiment": "left", **counted})
    for record in records:
        counts = [str(count) for count in record["verdicts"].values()]
        table.add_row(record["name"], *counts)
    return table


def table_lines(records: list[dict[str, Any]], page: Path) -> Iterator[str]:
    """Where the table of each experiment is, and the page on all of them: whole, to be copied."""
    paths = {record["name"]: record["files"][0] for record in records}
    paths["What holds in the paper"] = str(page)
    width = max(map(len, paths)) + 1
    for name, path in paths.items():
        yield f"{name + ':':<{width}} {path}"
