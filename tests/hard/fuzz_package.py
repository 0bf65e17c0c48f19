"""The doors of the package: every public function of hf_attn that takes text, files, ids or settings."""

import contextlib
import functools
import itertools
from pathlib import Path

import torch
from hypothesis import strategies as st

import hf_attn
from hf_attn.architectures.presets import PRESETS
from hf_attn.architectures.settings import apply_settings, parse_setting, read_settings
from hf_attn.experiments.words.ngram_text import split_words
from hf_attn.generation.strategies import STRATEGIES, complete_settings
from hf_attn.interpret.interventions import parse_intervention
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.tasks import TASKS
from hf_attn.tasks.user.read_table import column_names, read_columns
from tests.hard.fuzz_draws import (
    CARDS,
    HERE,
    Door,
    as_tensor,
    contents,
    ids,
    odd_numbers,
    one_of,
    small,
    texts,
    values,
    write,
)

OPEN_TASKS = tuple(
    name for name, task in TASKS.items() if not task.column_options and name != "pronunciation"
)
SETTINGS = (
    "steps", "batch_size", "hidden_size", "optimizer", "preset", "position_type", "max_length", "digits",
)  # fmt: skip
CONFIGS = ("AttnDecoder", "AttnEncoder", "AttnSeq2Seq", "Recurrent", "RecurrentEncoder")
MODELS = ("attn-copy", "attn-docstring-topics", "bahdanau-reverse")
WHOLE = st.integers(-2, 40)
ENDINGS = (".csv", ".tsv", ".jsonl")
KINDS = ("encoder", "decoder", "cross")
TOKENS = st.lists(texts, max_size=6)
KEY_VALUES = st.dictionaries(one_of(SETTINGS), values, max_size=3)
WEIGHTS = st.lists(st.lists(st.floats(width=32), min_size=3, max_size=3), min_size=1, max_size=4)
ROWS = st.lists(st.lists(texts, max_size=4), max_size=4)
INTERVENTIONS = st.tuples(one_of(["remove", "uniform"]), one_of(["cross.0.1", "decoder", "cross.0"]), small)


@functools.cache
def find_task(name: str):
    return hf_attn.build_task(name)


@functools.cache
def open_model(name: str):
    return hf_attn.load_checkpoint(CARDS / name).model


@functools.cache
def open_tokenizer(name: str):
    return hf_attn.load_checkpoint(CARDS / name).tokenizer


@functools.cache
def list_fields(config: type) -> tuple[str, ...]:
    return tuple(vars(config()))


def change_config(kind: str, field: float, value: object):
    config = getattr(hf_attn, f"{kind}Config")
    fields = list_fields(config)
    return config(**{fields[int(field * len(fields))]: value})


def read_table(content: bytes | str, ending: str, column: str):
    path = write(content, f"table{ending}")
    return column_names(path), read_columns(path, (column,))


def read_task(name: str, text: str):
    task = find_task(name)
    return task.encode(text), task.find_split(text)


def learn_table(name: str, content: bytes | str, ending: str, changes: dict):
    task = hf_attn.build_task(name, **({"path": str(write(content, f"rows{ending}"))} | changes))
    return task.held_out(2), hf_attn.build_tokenizer(task)


def try_interventions(text: str, given: list[tuple]):
    done = [parse_intervention(*one) for one in given]
    model, source = open_model("attn-copy"), torch.tensor([find_task("copy").encode("7 2")])
    hf_attn.measure_changes(model, source, [hf_attn.Trial(tuple(done), edges=text)])
    with hf_attn.intervening(model, done):
        hf_attn.generate_answer(model, source, max_new_tokens=3)


def predict_words(text: str, prompt: str, n: int):
    passages = hf_attn.read_passages(text)
    for table in hf_attn.count_ngrams(passages):
        hf_attn.predict_next_words(passages, table, prompt, n)


def order_words(words: str, other: list[str], kind: str, shift: int, **sizes):
    settings = hf_attn.PositionSettings(**sizes)
    hf_attn.view_position_encoding(kind, settings)
    return hf_attn.measure_order_sensitivity(kind, settings, [words, *other], shift)


def judge_maps(weights: list, rows: list[list[int]], tokens: list[str], ending: str, title: str):
    drawn = torch.tensor(weights)
    maps = hf_attn.AttentionMaps(drawn[None, None], None, None, tuple(tokens))
    hf_attn.measure_heads(maps, rows)
    hf_attn.measure_even_attention(maps, rows)
    hf_attn.AttentionView(maps, title).to_html()
    hf_attn.draw_map(drawn, tokens, tokens, Path(HERE.name) / f"map{ending}", rows, title)


def push(folder: str, repo_id: str, **options):
    path = CARDS / folder
    return list(itertools.islice(hf_attn.push_checkpoint(path, repo_id, token="hf_x", **options), 3))


def duel_once(task: str, names: list[str], parameters: int, steps: object):
    recipes = hf_attn.match_parameters(find_task(task), names, parameters)
    return next(hf_attn.duel(find_task(task), recipes, hf_attn.Budget(steps=steps), device="cpu"))


def train_once(settings: dict, until: float):
    task, recipe = apply_settings("copy", {"max_length": 4, "batch_size": 2} | settings)
    size = recipe.batch_size * recipe.model.get("hidden_size", 64)
    if size > 10_000:  # allowed, and slow
        return
    model = hf_attn.build_model(task, recipe)
    with contextlib.closing(hf_attn.train(task, model, recipe, until=until)) as reports:
        next(reports)


def test_lengths(task: str, trained: int, tested: tuple, position_type: str, rounds: int):
    test = hf_attn.LengthTest(task, trained, tested, 1)
    with contextlib.closing(hf_attn.run_length_test(test, position_type, rounds=rounds, examples=2)) as run:
        next(run)


def generate(model: str, numbers: list[int], strategy: str, most: int | None, settings: dict):
    return hf_attn.generate_answer(
        open_model(model), as_tensor(numbers), strategy, max_new_tokens=most, **settings
    )


def search(numbers: list[int], beams: int, penalty: float, most: int | None):
    model = open_model("attn-copy")
    return hf_attn.search_beams(model, as_tensor(numbers), beams, length_penalty=penalty, max_new_tokens=most)


def predict(model: str, numbers: list[int], target: list[int], place: int):
    opened, given, changed = open_model(model), as_tensor(numbers), as_tensor(target)
    for ask in (hf_attn.predict_tokens, hf_attn.logit_lens):
        with contextlib.suppress(ValueError):
            ask(opened, given)
    hf_attn.patch_activations(opened, given, changed, changed, place)


def show(model: str, text: str, target: str | None, layers: list[int] | None, theme: str):
    tokenizer, most = open_tokenizer(model), {"max_new_tokens": 4}
    return hf_attn.show_attention(
        open_model(model), tokenizer, text, target, layers=layers, theme=theme, **most
    )


def measure(split: str, n: int, seed: int):
    hf_attn.evaluate(open_model("attn-copy"), find_task("copy"), split, n, seed)
    rows = [f"{word} {number},{word}" for number in range(40) for word in ("fine", "dull")]
    table = write("\n".join(["text,label", *rows]), "classes.csv")
    hf_attn.measure_baseline(hf_attn.build_task("csv", path=str(table)), split)


def save(folder: str, training: dict):
    path = Path(HERE.name) / "saved" / (folder if "/" not in folder else "x")
    return hf_attn.save_checkpoint(path, open_model("attn-copy"), find_task("copy"), training)


MORE = st.none() | st.integers(-2, 6)
SIZES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("length", "width", "heads", "trained", "clip"), small)
)
SAMPLING = ("top_k", "top_p", "temperature", "num_beams", "seed")
DOORS = {
    "setting": Door(parse_setting, (texts,)),
    "settings file": Door(lambda content: read_settings(write(content, "settings.json")), (contents,)),
    "settings": Door(apply_settings, (one_of(OPEN_TASKS), KEY_VALUES), ("Recipe",), 2),
    "training": Door(train_once, (KEY_VALUES, st.floats()), ("train", "build_model"), 0.3),
    "task": Door(hf_attn.build_task, (one_of(TASKS),), ("build_task", "TASKS", "Task")),
    "task's own file": Door(lambda content: hf_attn.load_task_file(write(content, "own.py")), (contents,),
        ("load_task_file",), 0.5),
    "attention's own file": Door(lambda content: hf_attn.load_attention_file(write(content,
        "own_attention.py")), (contents,), ("load_attention_file", "OwnAttention"), 0.5),
    "task reads": Door(read_task, (st.sampled_from(OPEN_TASKS), texts), (), 3),
    "task judges": Door(lambda name, text, answer: find_task(name).verify(text, answer),
        (st.sampled_from(OPEN_TASKS), texts, texts), (), 2),
    "configuration": Door(change_config, (st.sampled_from(CONFIGS), st.floats(0, 0.999), values),
        tuple(f"{kind}Config" for kind in CONFIGS), 3),
    "preset": Door(lambda name, changes: hf_attn.build_preset(name, **changes), (one_of(PRESETS),
        st.dictionaries(one_of(SETTINGS), values, max_size=2)), ("build_preset",)),
    "table": Door(read_table, (contents, st.sampled_from(ENDINGS), texts), (), 2),
    "own data": Door(learn_table, (st.sampled_from(["pairs", "csv", "text"]), contents,
        st.sampled_from([*ENDINGS, ".txt"]), st.dictionaries(st.sampled_from(["source", "text", "dataset",
        "path", "label"]), texts, max_size=2)), ("build_tokenizer",), 1),
    "answers": Door(generate, (st.sampled_from(MODELS), ids, one_of(STRATEGIES), MORE,
        st.dictionaries(st.sampled_from(SAMPLING), odd_numbers, max_size=2)), ("generate_answer",)),
    "beams": Door(search, (ids, small, st.floats(), MORE), ("search_beams",), 0.5),
    "attention maps": Door(lambda model, source, target: hf_attn.attention_maps(open_model(model),
        as_tensor(source)[0], as_tensor(target)[0], strategy=None, max_new_tokens=4),
        (st.sampled_from(MODELS), ids, ids), ("attention_maps", "AttentionMaps")),
    "maps of text": Door(show, (st.sampled_from(MODELS[:2]), texts, st.none() | texts,
        st.none() | st.lists(small, max_size=2), one_of(["auto", "dark"])), ("show_attention",
        "AttentionView"), 0.5),
    "maps drawn": Door(judge_maps, (WEIGHTS, st.lists(st.lists(small, max_size=2), max_size=3), TOKENS,
        one_of([".png", ".svg", ".html", ".csv", ".npz"], st.text("ab./\0", max_size=4)), texts), ("draw_map",
        "measure_heads", "measure_even_attention"), 0.3),
    "a map's figures": Door(lambda weights: (hf_attn.distance_profile(torch.tensor(weights)),
        hf_attn.measure_theory(torch.tensor(weights)), hf_attn.singular_values(torch.tensor(weights))),
        (WEIGHTS,), ("distance_profile", "measure_theory", "singular_values"), 0.5),
    "mask": Door(lambda kind, queries, keys: hf_attn.build_attention_mask(kind, queries, keys),
        (one_of(KINDS), WHOLE, WHOLE), ("build_attention_mask",), 0.3),
    "read a head": Door(lambda source, target, layer, head, kind: hf_attn.read_head(open_model("attn-copy"),
        source, target, layer=layer, head=head, kind=kind), (ids, texts | ids, small, small, one_of(KINDS)),
        ("read_head",)),
    "random head": Door(lambda text, heads, head, seed, hidden: hf_attn.build_random_head(text,
        num_heads=heads, head=head, seed=seed, hidden=hidden), (texts, small, small, small,
        st.none() | st.lists(small, max_size=3)), ("build_random_head",)),
    "intervention": Door(parse_intervention, (one_of(["remove", "uniform"]), texts), ("Intervention",)),
    "interventions": Door(try_interventions, (one_of(["", "known"]), st.lists(INTERVENTIONS, max_size=2)),
        ("intervening", "measure_changes", "Trial"), 0.5),
    "without words": Door(lambda text: hf_attn.measure_removal(open_model("attn-docstring-topics"),
        open_tokenizer("attn-docstring-topics"), text), (texts,), ("measure_removal",), 0.5),
    "predictions": Door(predict, (st.sampled_from(MODELS), ids, ids, small), ("predict_tokens", "logit_lens",
        "patch_activations", "find_prediction"), 0.5),
    "measures": Door(measure, (one_of(["held-out"]), st.integers(-2, 9), small), ("evaluate",
        "measure_baseline"), 0.1),
    "outcomes": Door(lambda name, n, seed, split: next(hf_attn.measure_outcomes(open_model("attn-copy"),
        find_task(name), examples=n, seed=seed, split=split)), (st.sampled_from(OPEN_TASKS[:3]),
        st.integers(-1, 6), small, one_of(["held-out"])), ("measure_outcomes", "list_trials"), 0.1),
    "roles": Door(lambda name, n, seed: hf_attn.measure_head_roles(open_model("attn-copy"), find_task(name),
        n, seed), (st.sampled_from(OPEN_TASKS[:3]), st.integers(-1, 6), small), ("measure_head_roles",), 0.1),
    "strategy": Door(complete_settings, (one_of(STRATEGIES), st.dictionaries(one_of(SAMPLING), values,
        max_size=3))),
    "by hand": Door(hf_attn.check_hand_exercise, (st.dictionaries(one_of(["scores", "weights", "outputs"]),
        ROWS, max_size=3),), ("check_hand_exercise",)),
    "roles by seed": Door(hf_attn.separate_query_key_value, (small,), ("separate_query_key_value",), 0.1),
    "merges": Door(hf_attn.learn_bpe_merges, (texts, WHOLE), ("learn_bpe_merges",)),
    "next words": Door(predict_words, (texts, texts, small), ("read_passages", "count_ngrams",
        "predict_next_words")),
    "words": Door(lambda text: (hf_attn.split_sentences(text), split_words(text)), (texts,),
        ("split_sentences",)),
    "word vectors": Door(lambda sentences, kind: hf_attn.choose_word_vector_settings(sentences, kind),
        (TOKENS, one_of(["skip-gram", "CBOW"])), ("choose_word_vector_settings", "learn_word_vectors"), 0.3),
    "word orders": Door(hf_attn.compare_word_orders, (TOKENS, TOKENS, small), ("compare_word_orders",), 0.5),
    "learned orders": Door(lambda length, steps, examples,
        seed: next(hf_attn.learn_word_order(hf_attn.WordOrderSizes(length, steps, examples), seed)),
        (st.integers(-1, 5), st.integers(-1, 2), st.integers(-1, 5), small), ("learn_word_order",
        "WordOrderSizes"), 0.1),
    "tokenizer": Door(lambda lines, kind, size: hf_attn.train_tokenizer(lines, kind, size), (TOKENS,
        one_of(["bpe", "words", "characters"]), st.integers(-1, 400)), ("train_tokenizer",), 2),
    "positions": Door(lambda word, words, kind, shift, sizes: order_words(word, words, kind, shift, **sizes),
        (texts, TOKENS, one_of(POSITION_TYPES), small, SIZES), ("PositionSettings",
        "measure_order_sensitivity", "view_position_encoding")),
    "lengths": Door(test_lengths, (one_of(["copy", "reverse", "addition"]), st.integers(-1, 5),
        st.tuples(st.integers(-1, 5)), one_of(["rotary"]), st.integers(-1, 3)), ("LengthTest",
        "run_length_test"), 0.1),
    "duel": Door(duel_once, (st.sampled_from(OPEN_TASKS[:2]), st.lists(one_of(["transformer", "none"]),
        max_size=2), st.integers(-1, 20_000) | odd_numbers, st.sampled_from([1, 0, -1, None, 10**9])),
        ("duel", "match_parameters", "Budget"), 0.1),
    "folder": Door(lambda name: (hf_attn.list_checkpoints(name), hf_attn.load_checkpoint(name)), (texts,),
        ("list_checkpoints", "load_checkpoint")),
    "model elsewhere": Door(lambda name, revision: hf_attn.open_model(name, revision=revision), (texts,
        st.none() | texts), ("open_model",)),
    "saving": Door(save, (texts, st.dictionaries(texts, values, max_size=2)), ("save_checkpoint",), 0.1),
    "push": Door(lambda repo_id, revision, message: push("attn-copy", repo_id, revision=revision,
        message=message), (texts, st.none() | texts, st.none() | texts), ("push_checkpoint",), 0.3),
    "pull": Door(lambda repo_id, revision: list(hf_attn.pull_checkpoint(repo_id, Path(HERE.name) / "pulled",
        revision=revision)), (texts, st.none() | texts), ("pull_checkpoint",), 0.3),
    "data set": Door(lambda count, measured, seed,
        repo_id: list(hf_attn.push_dataset(hf_attn.save_dataset(Path(HERE.name) / "data", find_task("copy"),
        training=count, measured=measured, seed=seed).path, repo_id, token="hf_x")), (st.integers(-1, 5),
        st.integers(-1, 5), small, texts), ("save_dataset", "push_dataset"), 0.1),
}  # fmt: skip
