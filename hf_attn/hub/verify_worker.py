"""Pull a model in a fresh process with an empty cache, and measure its answers there.

`measure_answers` also runs on the local model, for the comparison. As a program this file is started by its
path and imports nothing of hf_attn, so that the model loads as for anybody, with the code in its repo.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

SECONDS = 600  # to pull and to answer, on a slow line
REPLACED = ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE", "HF_MODULES_CACHE")


@torch.no_grad()
def measure_answers(model, sources: Sequence[Sequence[int]], most_tokens: int) -> list[dict]:
    """Measure the answer of a model in evaluation mode to each source's ids, in `most_tokens` tokens at most.

    Returns:
        For each source the generated `ids` (none for a model that does not generate) and `scores` [T][V]: the
        logits of these ids or of the classes, or the states of a model without a head.
    """
    answers = []
    for source in sources:
        inputs = torch.tensor([list(source)])
        ids: list[int] = []
        is_seq2seq = model.config.is_encoder_decoder
        if not model.can_generate():
            scores = (model(inputs, decoder_input_ids=inputs) if is_seq2seq else model(inputs))[0]
        else:
            output = model.generate(inputs, max_new_tokens=most_tokens, do_sample=False, num_beams=1)
            ids = output[0].tolist()
            scores = (model(inputs, decoder_input_ids=output) if is_seq2seq else model(output)).logits
        answers.append({"ids": ids, "scores": scores.float().reshape(-1, scores.shape[-1]).tolist()})
    return answers


def answers_in_fresh_process(request: Mapping, endpoint: str, empty: Path) -> list[dict]:
    """Run `measure_answers` in a fresh process with an empty cache, in a folder that is `empty`.

    The request holds `repo_id` and `revision` to pull, with `token`; transformers' `auto_class`; whether it
    `trusts` the code in the repo (else hf_attn's own is used); `sources` and `most_tokens`. OSError holds the
    last line of the process's standard error; TimeoutExpired: it took more than SECONDS.
    """
    environment = {name: value for name, value in os.environ.items() if name not in REPLACED}
    home = {"HF_HOME": str(empty), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    paths = [str(Path(__file__).parents[2]), *filter(None, [environment.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", __file__],  # -P: it does not import what lies beside it
        input=json.dumps(request),  # the token too, which others could read among the arguments
        env={**environment, **home, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise OSError(([line for line in done.stderr.splitlines() if line.strip()] or ["it was killed"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def _answer() -> None:
    """In the fresh process: read the request from standard input, and write the answers as JSON.

    There is one thread and one model, so that no lock is needed (`model_lock.building_model`).
    """
    import importlib

    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    request = json.load(sys.stdin)
    if not request["trusts"]:
        importlib.import_module("hf_attn")
    model = getattr(transformers, request["auto_class"]).from_pretrained(
        request["repo_id"],
        revision=request["revision"],
        token=request["token"],
        trust_remote_code=request["trusts"],
    )
    answers = measure_answers(model.eval(), request["sources"], request["most_tokens"])
    sys.stdout.write(json.dumps(answers) + "\n")


if __name__ == "__main__":
    _answer()
