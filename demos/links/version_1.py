"""Links that were copied before version 2: the same view as a state of today."""

VERSION = "1"
PARTS = {"values": "fields", "tab": "tab", "boards": "boards", "locked": "locked", "hidden": "hidden"}
RUN = "run"  # what such a link calls the sender's own run
TABLE = "runs"  # the board that says which runs were laid over the shown one


def translate(state: dict) -> dict:
    """The state of an older link; what is of a wrong type stays, to be refused.

    Such a link names the steps at which the sender's frames were taken; here they follow from the settings.
    """
    beside = state.get("beside", [])
    runs = [*(beside if isinstance(beside, list) else []), state["run"]] if "run" in state else []
    jobs = [
        {"job": "train", "form": run.get("form"), "progress": [run.get("steps")], "name": run.get("name", "")}
        for run in (one if isinstance(one, dict) else {} for one in runs)
    ]
    learned = state.get("learned")
    for name, job in learned.items() if isinstance(learned, dict) else ():
        job = job if isinstance(job, dict) else {}
        jobs.append({"job": name, "form": job.get("form"), "progress": job.get("taken")})
    found = {
        PARTS.get(name, name): part
        for name, part in state.items()
        if name not in ("run", "beside", "learned")
    }
    fields, boards = found.get("fields"), found.get("boards")
    if isinstance(fields, dict):
        shown = f"job:{len(runs) - 1}" if runs else None
        found["fields"] = {name: shown if value == RUN else value for name, value in fields.items()}
    if isinstance(boards, dict) and isinstance(boards.get(TABLE), dict):
        laid = [f"job:{place}" for place in range(len(runs) - 1)]
        found["boards"] = boards | {TABLE: boards[TABLE] | {"laid": laid}}
    return found | ({"jobs": jobs} if jobs else {})
