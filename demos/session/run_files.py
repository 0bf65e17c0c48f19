"""A run as files: a checkpoint folder in the session's own, packed for the browser to save."""

import re
import zipfile
from pathlib import Path

import gradio as gr
import torch

from hf_attn.checkpoints.save_load import save_checkpoint
from hf_attn.checkpoints.training_record import build_training_record
from hf_attn.checkpoints.validate import list_model_files
from hf_attn.evaluation.metrics import evaluate

from ..core.events import RunEvent
from ..jobs.training_job import TrainingJob
from ..ui import notices
from .page import LIGHT, Page
from .session import Session

NO_WEIGHTS = "This run has no weights yet."
NO_RUN = "This run is not here any more: train again."


def note_without_weights(run: TrainingJob | None) -> str:
    """Why nothing can be done with a run."""
    return notices.note(NO_WEIGHTS if run else NO_RUN)


def file_name(name: str) -> str:
    """A run's name, safe as part of a file name on every system."""
    return re.sub(r"[^\w.]+", "-", name, flags=re.ASCII).strip("-.") or "run"


def save_run(session: Session, run: TrainingJob, name: str) -> Path:
    """Measure a run as it is now, and save it as a checkpoint folder of the session."""
    folder = session.new_folder(name)
    with run.looking() as model:
        if run.evaluation is None:
            run.record(evaluate(model, run.task))
        reports = [{**point, "validation_exact_match": point["validation"]} for _, point in run.points]
        reports = [{k: None if v != v else v for k, v in report.items()} for report in reports]
        record = build_training_record(
            run.task,
            run.recipe,
            run.evaluation,
            seed=run.seed,
            reports=reports,
            device=run.computed_on,
            threads=torch.get_num_threads(),
            baseline=run.baseline,
        )
        if path := record["task"]["options"].get("path"):
            record["task"]["options"]["path"] = Path(path).name  # where it lies here is nobody's business
        save_checkpoint(folder, model, run.task, record)
    return folder


def pack(session: Session, run: TrainingJob) -> Path:
    """Zip a run's checkpoint folder."""
    folder = save_run(session, run, f"attn-{file_name(run.name)}")
    path = folder.parent / f"{folder.name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in list_model_files(folder).items():
            archive.write(file, f"{folder.name}/{name}")
    return path


def pack_run(session: Session, event: RunEvent) -> dict:
    run = session.runs.get(event.run)
    if run is None or run.model is None:
        return {"zipped": None, "note": note_without_weights(run)}
    path = pack(session, run)
    sentence = f"{path.name} holds a checkpoint that transformers loads."
    return {"zipped": str(path), "note": notices.note(sentence)}


def wire_download(page: Page, board: gr.HTML, zipped: gr.DownloadButton, note: gr.HTML) -> None:
    """Let a board's `download_run` pack a run, and the browser save it from the hidden button."""
    save = (  # once the link is there
        f"() => setTimeout(() => document.querySelector('#{zipped.elem_id}')?.click(), 150)"
    )
    packed = page.connect(board.download_run, pack_run, None, {"zipped": zipped, "note": note}, **LIGHT)
    packed.success(None, js=save)
