"""What a fresh process makes of a repo: it pulls the model into an empty cache and lets it answer.

`measure_answers` runs here and there, so that both can be compared. As a program this file is started by its
path, so that nothing of hf_attn is imported: the model then loads as for anybody, by the code in its repo.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

SECONDS = 600  # to pull and to answer, on a slow line
OWN = ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE", "HF_MODULES_CACHE")


@torch.no_grad()
def measure_answers(model, sources: Sequence[Sequence[int]], most_tokens: int) -> list[dict]:
    """What a model makes of each source.

    Args:
        model: any of ours, in evaluation mode.
        sources: ids, as the model reads them.
        most_tokens: that it may write.

    Returns:
        For each source `ids` it wrote (none for a model that does not write), and `scores` [T][V]: its logits
        at each of them, or the classes', or the states of a model without a head.
    """
    answers = []
    for source in sources:
        inputs = torch.tensor([list(source)])
        ids: list[int] = []
        if not model.can_generate():
            is_seq2seq = model.config.is_encoder_decoder
            scores = (model(inputs, decoder_input_ids=inputs) if is_seq2seq else model(inputs))[0]
        else:
            written = model.generate(inputs, max_new_tokens=most_tokens, do_sample=False, num_beams=1)
            ids = written[0].tolist()
            is_seq2seq = model.config.is_encoder_decoder
            scores = (model(inputs, decoder_input_ids=written) if is_seq2seq else model(written)).logits
        answers.append({"ids": ids, "scores": scores.float().reshape(-1, scores.shape[-1]).tolist()})
    return answers


def answers_in_fresh_process(question: Mapping, endpoint: str) -> list[dict]:
    """What `measure_answers` gives in a fresh process with an empty cache.

    Args:
        question: `repo_id` and `revision` to pull, with `token`; by which `auto_class` of transformers;
            whether it `trusts` the code in the repo, or hf_attn's own loads it; `sources` and `most_tokens`.
        endpoint: of the Hub.

    Raises:
        OSError: it could not; the last line that it said.
        subprocess.TimeoutExpired: it took SECONDS.
    """
    with tempfile.TemporaryDirectory(prefix="hf_attn-") as empty:
        kept = {name: value for name, value in os.environ.items() if name not in OWN}
        home = {"HF_HOME": empty, "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        paths = [str(Path(__file__).parents[2]), *filter(None, [kept.get("PYTHONPATH")])]
        done = subprocess.run(
            [sys.executable, "-P", "-W", "ignore", __file__],  # -P: it does not import what lies beside it
            input=json.dumps(question),  # the token too, which others could read among the arguments
            env={**kept, **home, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if done.returncode:
        raise OSError(([line for line in done.stderr.splitlines() if line.strip()] or ["it was killed"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def _answer() -> None:
    """The fresh process: read what is asked on standard input, and write the answers as JSON.

    It has one thread and loads one model: it needs no lock (`model_lock.building_model`), nor may it import
    one from hf_attn.
    """
    import importlib

    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    asked = json.load(sys.stdin)
    if not asked["trusts"]:
        importlib.import_module("hf_attn")
    where = {"revision": asked["revision"], "token": asked["token"], "trust_remote_code": asked["trusts"]}
    model = getattr(transformers, asked["auto_class"]).from_pretrained(asked["repo_id"], **where).eval()
    answers = measure_answers(model, asked["sources"], asked["most_tokens"])
    sys.stdout.write(json.dumps(answers) + "\n")


if __name__ == "__main__":
    _answer()
