"""The Train tab's pictures: a run, the table of runs, and the comparison."""

import gradio as gr

from ...ui import boards


def train_board(elem_id: str) -> gr.HTML:
    """Build the picture of a run, which takes a `TrainValue`: figures, curves, the probe's map, predictions.

    `with train_board("train-board"): runs = runs_table("runs")` puts the runs beside the predictions.
    """
    template = '<div class="hf-train hf-board"></div>@children'
    return boards.build_board("train_board", "hf-train", elem_id, template=template)


def runs_table(elem_id: str) -> gr.HTML:
    """Build the table of runs, which takes a `RunsValue`."""
    events = ("open_run", "download_run", "share_run", "rename_run", "delete_run", "compare_runs")
    return boards.build_board("runs_table", "hf-runs", elem_id, *events)


def compare_board(elem_id: str) -> gr.HTML:
    """Build the comparison of this run with those laid over it, which takes a `CompareValue`."""
    return boards.build_board("compare_board", "hf-compare", elem_id)
