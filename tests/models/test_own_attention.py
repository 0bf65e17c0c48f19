"""Attention of one's own, from one file: it trains, is measured, drawn and changed, or refused in words."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from hf_attn.analysis.ablation import Trial, measure_changes
from hf_attn.architectures.attention_file import load_attention_file
from hf_attn.architectures.registry import build_model
from hf_attn.generation.decoders import can_serve
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.interpret.interventions import parse_intervention
from hf_attn.interpret.read_head import read_head
from hf_attn.models.own_attention import OWN_ATTENTION, AttentionError
from hf_attn.tasks import Recipe, build_task
from tests.support.checks import (
    SIDES,
    assert_close,
    check_cached_equals_uncached,
    check_rows_stand_alone,
    random_ids,
)
from tests.support.commands import in_process, rows_of, run_page
from tests.support.subjects import FAMILIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your_own_attention.md").read_text(encoding="utf-8")
COSINE, SHARPENING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS, MEASURED = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
# softmax(q·k), as ours is: what it gives is known
PLAIN = """
import torch
from hf_attn import OwnAttention

class Plain(OwnAttention):
    name = "plain"

    def weigh(self, query, key, may_attend):
        scores = query @ key.transpose(-2, -1) * self.scaling
        scores = scores.masked_fill(~may_attend, torch.finfo(scores.dtype).min)
        A = scores.softmax(-1).masked_fill(~may_attend, 0)
        return A
"""


SHARE = """
def share(allowed):
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)
"""


def share_out(weights):
    """Lines that make rows of what is above 0, where it may be read."""
    return f"A = ({weights}) * may_attend\n        return A / A.sum(-1, keepdim=True).clamp(min=1e-9)"


LEAKS = {  # name → (what `weigh` returns in place of A, what is said of it)
    "raises": ("return A + key", "raised RuntimeError in line 12: The size of tensor a"),
    "a list": ("return [A]", "returned a list: it must be a tensor"),
    "whole numbers": ("return A.long()", "returned torch.int64"),
    "half": ("return A / 2", "sum to 0.5 in row 0 of head 0, example 0: they must sum to 1"),
    "nothing": ("return scores.softmax(-1)", "weight 0.2 in column 4 of row 0 of head 0, example 2"),
    "no number": ("return A / A.sum(-1, keepdim=True)", "gives weight nan, which is no number, in column 0"),
    "below 0": ("return 2 * A - share(may_attend)", "which is below 0"),
    "the future": (
        "return A if not self.is_causal else share(may_attend.any(-1, keepdim=True).expand_as(A))",
        "layer 0 of the decoder's self-attention, looks into the future: weight 0.2 in column 4 of row 0",
    ),
    "queries": (
        share_out("scores.softmax(-2) if self.is_causal else A"),
        "looks into the future: what comes after place",
    ),
    "keys": (share_out("(scores - key.mean()).exp()") + " * 1", None),  # the mean falls out of each row
    "a mean over padding": (share_out("(scores * key.mean().exp()).exp()"), "reads padding, in some way"),
    "chance": (share_out("(scores + torch.randn_like(scores)).exp()"), "gives other weights for the same"),
    "place": (
        share_out("torch.arange(1, query.shape[2] + 1)[:, None] ** scores.sigmoid()"),
        "gives row 1 otherwise when asked for it alone, as with a cache",
    ),
}


@pytest.fixture(autouse=True)
def known_names():
    """What a test loads is forgotten."""
    before = dict(OWN_ATTENTION)
    yield
    OWN_ATTENTION.clear()
    OWN_ATTENTION.update(before)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the page's files and the plain one."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("cosine", COSINE), ("sharpening", SHARPENING), ("plain", PLAIN)):
        Path(f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def write(old, new, text=PLAIN):
    assert text.count(old) == 1
    Path("mine.py").write_text(text.replace(old, new), encoding="utf-8")
    return "mine.py"


def refused(file):
    with pytest.raises(ValueError, match=re.escape(file)) as refusal:
        load_attention_file(file)
    assert not OWN_ATTENTION
    return str(refusal.value)


def build_twins(family, **settings):
    """A model with the plain file's attention, and ours with the same weights."""
    load_attention_file("plain.py")
    own = FAMILIES[family]("eager", attention_type="plain", **settings)
    ours = FAMILIES[family]("eager", **settings)
    ours.load_state_dict(own.state_dict())
    return own.eval(), ours.eval()


def test_the_page_s_files_are_short_and_its_commands_work_as_they_stand(here, capsys):
    assert all(len(text.splitlines()) <= 25 for text in (COSINE, SHARPENING))
    for arguments, output in run_page(capsys, COMMANDS):
        if arguments[0] == "generate":
            assert re.search(r"7 2 3\s.*7 2 3\s.*right", output)
    assert (here / "map.png").stat().st_size > 1000
    assert json.loads(Path("cosine-copy/config.json").read_text())["attention_type"] == "cosine"
    assert not list(Path("cosine-copy").glob("cosine*"))


def test_the_page_s_proposal_is_measured_beside_ours_by_its_command(here, capsys, monkeypatch):
    from hf_attn.experiments import EXPERIMENTS, position_extrapolation
    from hf_attn.experiments.length_generalization import LengthTest

    small = position_extrapolation.Sizes(tests=(LengthTest("copy", 3, (4,), steps=2),), examples=5)
    monkeypatch.setitem(EXPERIMENTS, "positions", replace(EXPERIMENTS["positions"], sizes=small))
    _, *arguments = shlex.split(MEASURED.replace("--seeds 5", "--seeds 1"))
    code, output, errors = in_process(capsys, *arguments, "--json")
    assert code == 0, errors
    ours, own, _ = rows_of(output)
    assert (ours["position_type"], own["position_type"]) == ("sinusoidal", "sinusoidal + sharpening")
    assert own["parameters"] > ours["parameters"]
    code, _, errors = in_process(capsys, "experiment", "beams", "--attention", "cosine.py")
    assert code == 2
    assert "beams compares no attention" in errors
    for wrong, said in (("types=alibi", "'alibi' adds to"), ("attention=other", "'other' is not known")):
        code, _, errors = in_process(capsys, *arguments[:4], "--set", wrong)
        assert (code, said in errors) == (2, True), errors


@pytest.mark.parametrize("family", FAMILIES)
def test_softmax_in_a_file_is_what_ours_is_also_padded_and_cached(here, family):
    own, ours = build_twins(family)
    ids, mask = random_ids(2, 6), torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]])
    given = {"input_ids": ids, "attention_mask": mask}
    if family == "encoder-decoder":
        given["decoder_input_ids"] = ids[:, :4]
    assert_close(own(**given).logits, ours(**given).logits)
    if family == "classifier":
        for side in SIDES:
            check_rows_stand_alone(own, side)
        return
    check_cached_equals_uncached(own)
    for side in SIDES:
        check_rows_stand_alone(own, side, side)
    assert not can_serve(own)
    written = [model.generate(ids, max_new_tokens=5, do_sample=False) for model in (own, ours)]
    assert torch.equal(*written)


def test_what_looks_inside_sees_what_it_sees_of_ours(here):
    own, ours = build_twins("encoder-decoder")
    ids = random_ids(1, 5)
    maps = [attention_maps(model, ids, [4, 5, 2]) for model in (own, ours)]
    for kind in ("encoder", "decoder", "cross"):
        assert_close(*(getattr(each, kind) for each in maps))
    assert_close(*(read_head(model, ids, [4, 5, 2]).weights for model in (own, ours)))
    trial = Trial((parse_intervention("remove", "cross.0.0"), parse_intervention("uniform", "encoder")))
    changes = [measure_changes(model, ids, [trial])[0] for model in (own, ours)]
    assert changes[0].total_variation == pytest.approx(changes[1].total_variation, abs=1e-5)
    load_attention_file("cosine.py")
    with pytest.raises(ValueError, match=r"not softmax\(q·k\) alone"):
        read_head(FAMILIES["encoder-decoder"]("eager", attention_type="cosine").eval(), ids, [4, 5, 2])


@pytest.mark.parametrize("name", LEAKS)
def test_what_is_no_attention_is_refused_in_a_sentence_when_the_file_is_loaded(here, name):
    returned, said = LEAKS[name]
    file = write("return A", returned, PLAIN + SHARE)
    if said is None:
        assert load_attention_file(file).name == "plain"
        return
    message = refused(file)
    assert said in message
    assert message.startswith("Plain.weigh of mine.py, in layer 0 of ")
    assert message.count("\n") == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("class Plain(OwnAttention)", "class Plain", "exactly one subclass of hf_attn.OwnAttention"),
        ("import torch\n", "1 / 0\n", "cannot be run: ZeroDivisionError"),
        ('name = "plain"', 'name = ""', "lacks a name"),
        ('name = "plain"', 'name = "local"', "name='local' is taken"),
        ("def weigh", "def weight", "lacks weigh"),
        (
            "def weigh",
            "def __init__(self):\n        pass\n\n    def weigh",
            "Plain.__init__ of mine.py raised TypeError",
        ),
        (
            "def weigh",
            "def __init__(self, *given, **named):\n        1 / 0\n\n    def weigh",
            "ZeroDivisionError in line 9: division by zero",
        ),
    ],
)
def test_a_file_that_makes_no_attention_is_refused_in_a_sentence(here, old, new, said):
    assert said in refused(write(old, new))


def test_a_file_loaded_again_takes_its_own_place(here):
    first = load_attention_file("plain.py")
    model = FAMILIES["decoder"]("eager", attention_type="plain").eval()
    before = model(random_ids(1, 4)).logits
    again = load_attention_file(write("self.scaling", "(2 * self.scaling)"))
    assert OWN_ATTENTION["plain"] is again
    assert again is not first
    assert torch.equal(model(random_ids(1, 4)).logits, before)
    with pytest.raises(AttentionError):
        load_attention_file(write("return A", "return 2 * A"))
    assert OWN_ATTENTION["plain"] is again


def test_a_model_is_tried_when_it_is_built(here):
    """With the sizes on which the file was tried all is well."""
    load_attention_file(write("return A", "return A if self.head_dim < 8 else 2 * A"))
    task = build_task("copy", max_length=4)
    recipe = Recipe({"hidden_size": 32, "num_attention_heads": 2, "attention_type": "plain"})
    with pytest.raises(
        ValueError, match="layer 0 of the encoder's self-attention, gives weights that sum to 2"
    ):
        build_model(task, recipe)


@pytest.mark.parametrize("position_type", ["alibi", "t5", "relative", "both_ends"])
def test_positions_that_add_to_the_scores_are_refused(here, position_type):
    load_attention_file("plain.py")
    with pytest.raises(ValueError, match=f"position_type='{position_type}' adds .*'plain' has no such thing"):
        FAMILIES["encoder-decoder"](attention_type="plain", position_type=position_type)


def test_a_kernel_that_would_not_ask_the_file_is_refused(here):
    own, _ = build_twins("encoder-decoder")
    built = build_model(build_task("copy"), Recipe({"attention_type": "plain"}))
    assert built.config._attn_implementation == "eager"
    with pytest.raises(ValueError, match='attn_implementation="eager"'):
        own.set_attn_implementation("sdpa")


def test_a_run_and_its_checkpoint_say_which_option_gives_the_file_and_never_fall_back(here, capsys):
    from hf_attn.architectures.settings import apply_settings
    from hf_attn.checkpoints.run_folder import Run, save_run

    settings = {"preset": "quick", "steps": 4, "evaluate_every": 4, "attention_type": "plain"}
    save_run(here / "out", Run(*apply_settings("copy", settings)))
    code, _, errors = in_process(capsys, "train", "--resume", "out")
    assert (code, "--attention FILE.py" in errors) == (2, True)
    code, _, errors = in_process(capsys, "train", "--resume", "out", "--attention", "cosine.py")
    assert (code, "--attention is not that of the run" in errors) == (2, True)
    code, _, errors = in_process(capsys, "train", "--resume", "out", "--attention", "plain.py")
    assert code == 0, errors
    OWN_ATTENTION.clear()
    for command in ("eval out", "attention out 7 --output m.png"):
        code, _, errors = in_process(capsys, *command.split())
        assert code == 2, command
        assert "attention_type='plain' is not known" in errors
        assert 'load_attention_file("FILE.py")' in errors
        assert errors.count("\n") == 1
    with pytest.raises(ValueError, match="'plain' is not known"):
        AutoModelForSeq2SeqLM.from_pretrained("out")
    load_attention_file("plain.py")
    opened = AutoModelForSeq2SeqLM.from_pretrained("out")
    assert opened.config._attn_implementation == "eager"
    assert {type(layer.cross_attn).__name__ for layer in opened.model.decoder.layers} == {"Plain"}
    assert "`plain`, is its author's own" in Path("out/README.md").read_text(encoding="utf-8")
    code, _, errors = in_process(capsys, "eval", "out", "--attention", "cosine.py")
    assert code == 2
    assert "defines 'cosine', and out has attention_type='plain'" in errors
    code, _, errors = in_process(capsys, "train", "copy", "--model", "dot", "--attention", "plain.py")
    assert code == 2
    assert "a Transformer's" in errors
    local = ["--set", "attention_type=local", "--attention", "plain.py"]
    code, _, errors = in_process(capsys, "train", "copy", *local)
    assert (code, "leave --set attention_type out" in errors) == (2, True)


def test_what_goes_wrong_while_it_learns_is_one_line(here, capsys):
    """A GPU is not asked while it learns; a processor is, in every pass."""
    learned = "def __init__(self, *given, **named):\n        super().__init__(*given, **named)\n"
    learned += "        self.shift = torch.nn.Parameter(torch.zeros(()))\n\n    def weigh"
    text = PLAIN.replace("def weigh", learned)
    file = write("return A", "return A * (1 + self.shift)", text)
    few = ["--set", "preset=quick", "--steps", "20"]
    code, _, errors = in_process(capsys, "train", "copy", *few, "--attention", file)
    assert code == 1, errors
    assert "Plain.weigh of mine.py, in layer 0 of the encoder's self-attention" in errors
    assert errors.count("\n") == 1
