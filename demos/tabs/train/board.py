"""The Train tab's pictures: a run, the table of runs, and the comparison; what their values hold."""

import gradio as gr

from ...ui import boards


def train_board(elem_id: str) -> gr.HTML:
    """Build the picture of a run: figures, curves, the probe's map, film strip and predictions.

    `with train_board("train-board"): runs = runs_table("runs")` puts the runs beside the predictions.

    Value: `to_json` of None (nothing run yet) or a message. Keys marked * are needed.

        run*            id of the run; a new id starts afresh
        status          "running" | "paused" | "stopped" | "finished" | "error"
        message         what failed and what to do; shown, in rust, when status is "error"
        eta_seconds     what is left
        meta*           in every message: task, probe "153+391", metric "every digit right", total_steps*,
                        rows, cols (labels), truth [[0|1|2]] (1 known answer, 2 carried),
                        predictions_name, predictions_title, predictions_columns; baseline {name, held_out}
                        or None, drawn as a level beside a classifier; of the probe's map, once
                        there is a model: heads (0: no attention), layers [1, 2] (their numbers), map,
                        map_title, allowed [[bool]]; own_probe: the visitor wrote the probe
        points          [{step*, loss*, held_out, tokens_per_second, seconds, on_known}]
        frames          [{step*, maps: [encode_maps([heads, rows, cols]) a layer], predictions: [{source,
                        written [symbols], wrong [bool], right, answer}], or with a class
                        [{source, label, right, answer}], or [{source, text}]}]

        film_every      steps between two frames that stay; another stays until a newer comes

    Messages may be lost or merged by the browser: repeat recent points and frames in each; the last has all
    that is kept. They are merged by step within one run; a null never hides what was measured before.
    `on_known` is drawn only for a run without maps or truth, else the board works it out from the maps of the
    chosen head.

    A `gr.Button(elem_classes="train")` of the page shows its progress.
    """
    template = '<div class="hf-train hf-board"></div>@children'
    return boards.build_board("train_board", "hf-train", elem_id, template=template)


def runs_table(elem_id: str) -> gr.HTML:
    """Build the table of runs; a click on a row lays its curves over the train board's and compares it.

    Value: `to_json({"runs": [{"id", "name", "model", "details": "928 k, 1 240 steps, 0:31",
    "held_out": 0.935, "curve": [[step, accuracy]], "loss": [[step, loss]], "settings": [[name, text]],
    "results": [[name, text]]}], "current": id, "refused": {"run", "name", "why"}})`; the last only for a name
    that will not do.

    Events, each with `event.run` (the id): `open_run`, `download_run`, `share_run`, `rename_run` with
    `event.name`, and `delete_run`, sent ten seconds after the click, unless undone; `compare_runs` with
    `event.runs`, the ids of those laid over the curves.
    """
    events = ("open_run", "download_run", "share_run", "rename_run", "delete_run", "compare_runs")
    return boards.build_board("runs_table", "hf-runs", elem_id, *events)


def compare_board(elem_id: str) -> gr.HTML:
    """Build the comparison of this run with those laid over it; nothing is seen while there are none.

    Value: `to_json({"runs": [whole messages, as the train board takes them, each with its "name"],
    "python": lines that train these and the shown run again})`.
    """
    return boards.build_board("compare_board", "hf-compare", elem_id)
