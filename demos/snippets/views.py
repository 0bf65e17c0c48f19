"""A view's state as lines of Python that give the same with `hf_attn`: what "Python" in the Save menu copies.

The lines stand alone and name what anybody has: a bundled checkpoint by its folder, a run by training again
with its settings and seed, others by their id. They run from the repository's root. A lens replaces the line
that begins with `kind, layer, head =` by the head that is shown.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from hf_attn.analysis.ablation import Trial
from hf_attn.analysis.position_encodings import PositionSettings
from hf_attn.checkpoints.save_load import BUNDLED
from hf_attn.experiments.length_generalization import LengthTest
from hf_attn.experiments.word_order import WordOrderSizes
from hf_attn.generation.strategies import STRATEGIES
from hf_attn.interpret.attention_maps import MEMORY_LIMIT
from hf_attn.tasks import Recipe, Task
from hf_attn.tasks.base import CLASSES
from hf_attn.training.duel import Budget

from ..jobs.loop import uses_global_rng
from ..jobs.training_job import TrainingJob
from ..session.catalog import LoadedModel
from ..session.maps import ComputedMaps

DATA_OPTIONS = ("path", "dataset")  # of tasks that read a visitor's file, which only has its name elsewhere
TORCH = "import torch"


def join_lines(imports: Sequence[str], *lines: str) -> str:
    """The lines under what they need: `imports` are lines such as "import torch", and names of hf_attn."""
    others = sorted({line for line in imports if line.startswith("import ")})
    names = sorted({name for name in imports if name not in others}, key=str.lower)
    return "\n".join([*others, *([f"from hf_attn import {', '.join(names)}"] if names else []), "", *lines])


def task_call(task: Task) -> str:
    """The call that builds a task, without defaults."""
    defaults = {field.name: field.default for field in dataclasses.fields(task)}
    changed = {name: value for name, value in task.options.items() if value != defaults[name]}
    changed |= {name: Path(str(changed[name])).name for name in DATA_OPTIONS if changed.get(name)}
    options = [f"{name}={value!r}" for name, value in changed.items()]
    return f"build_task({', '.join([repr(task.name), *options])})"


def recipe_call(recipe: Recipe) -> str:
    """The call that builds a recipe, without defaults."""
    defaults = Recipe()
    fields = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    fields["model"] = dict(recipe.model)
    changed = {name: value for name, value in fields.items() if value != getattr(defaults, name)}
    return f"Recipe({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def training_lines(run: TrainingJob) -> tuple[list[str], list[str]]:
    """(imports, lines) that train a run again, up to the step where it stopped."""
    lines = [
        f"task = {task_call(run.task)}",
        f"recipe = {recipe_call(run.recipe)}",
        f"model = build_model(task, recipe, seed={run.seed})",
        *([f"torch.manual_seed({run.seed})  # dropout draws from it"] if uses_global_rng(run.recipe) else []),
        f"for report in train(task, model, recipe, generator=torch.Generator().manual_seed({run.seed})):",
        "    print(report.step, report.loss, report.validation_exact_match)",
    ]
    if run.step < run.recipe.steps:
        lines += [f"    if report.step == {run.step}:  # where it stands", "        break"]
    return [TORCH, "Recipe", "build_model", "build_task", "train"], lines


def model_lines(opened: LoadedModel) -> tuple[list[str], list[str]]:
    """(imports, lines) after which `model` and `tokenizer` are the checkpoint's."""
    if opened.run is not None:
        imports, lines = training_lines(opened.run)
        return [*imports, "build_tokenizer"], [*lines, "tokenizer = build_tokenizer(task)"]
    path = Path(opened.chosen)
    name = opened.chosen  # an id
    if path.is_dir():  # bundled, or a folder wherever it lies there
        is_cloned = path.parent == BUNDLED and BUNDLED.parent.name != "hf_attn_app"
        name = f"model_cards/{path.name}" if is_cloned else path.name
    opener = "open_model" if opened.task is None else "load_checkpoint"
    pinned = f", revision={opened.revision!r}" if opened.revision else ""
    if pinned:
        opener, name = "open_model", name.partition("@")[0]
    return [opener], [
        f"found = {opener}({name!r}{pinned})",
        "model, tokenizer = found.model, found.tokenizer",
    ]


def maps_snippet(opened: LoadedModel, computed: ComputedMaps, layer: int, head: int, kind: str | None) -> str:
    """Explore: the map of one head; empty where the model has none."""
    if kind is None:
        return ""
    imports, lines = model_lines(opened)
    given = input_arguments(opened, computed.read, computed.written)
    more = f", max_bytes={computed.needed}" if computed.needed > MEMORY_LIMIT else ""
    return join_lines(
        [*imports, "attention_maps"],
        *lines,
        f"maps = attention_maps(model, {given}, tokenizer=tokenizer{more})",
        f'kind, layer, head = "{kind}", {layer}, {head}',
        "weights = getattr(maps, kind)[layer, head]  # [queries, keys]",
        "print(weights)",
    )


def task_variable(opened: LoadedModel) -> str:
    """The name that the task has after `model_lines`."""
    return "found.task" if opened.run is None else "task"


def input_arguments(opened: LoadedModel, read: list[int], written: list[int]) -> str:
    """Ids of input and target, as arguments after the model."""
    target = opened.as_target(written)
    return f"{read}" if target is None else f"{read}, {target or repr('')}"


def trial_snippet(
    opened: LoadedModel, read: list[int], written: list[int], trial: Trial, counted: int
) -> str:
    """Explore: one change, its effect on this input and on `counted` held-out examples."""
    imports, lines = model_lines(opened)
    imports += [TORCH, "Trial", *(["Intervention"] if trial.interventions else [])]
    fields = {name: value for name in ("interventions", "without") if (value := getattr(trial, name))}
    lines.append(f"trial = Trial({', '.join(f'{name}={value!r}' for name, value in fields.items())})")
    if opened.predicts:
        imports.append("predict_tokens")
        target = f", torch.tensor([{written}])" if written else ""
        lines += [
            f"whole, changed = predict_tokens(model, torch.tensor([{read}]), [trial]{target})",
            "before, after = (one.log_probabilities.exp() for one in (whole, changed))  # [N, V]",
            "print(before.topk(5), after.topk(5), changed.total_variation)",
        ]
    else:
        imports.append("measure_changes")
        most = opened.most_own(len(read)) if opened.model.can_generate() else None
        lines += [
            f"(change,) = measure_changes(model, torch.tensor([{read}]), [trial], {most})",
            "print(change.before, change.after, change.total_variation)",
        ]
    if counted:
        imports.append("measure_outcomes")
        lines += [
            f"whole, left = measure_outcomes(model, {task_variable(opened)}, [trial], {counted})",
            "print(whole.exact_match, left.exact_match)",
        ]
    return join_lines(imports, *lines)


def expected_snippet(opened: LoadedModel, read: list[int], written: list[int]) -> str:
    """Explore: what a language model expects at each place."""
    imports, lines = model_lines(opened)
    target = f", target_ids=torch.tensor([{written}])" if written else ""
    return join_lines(
        [*imports, TORCH, "predict_tokens"],
        *lines,
        f"(expected,) = predict_tokens(model, torch.tensor([{read}]){target})",
        "print(expected.log_probabilities.exp().topk(5))  # of [places, vocabulary]",
    )


def lens_snippet(opened: LoadedModel, read: list[int], written: list[int]) -> str:
    """Explore: the likeliest token at each place, were each layer the last."""
    imports, lines = model_lines(opened)
    target = f", torch.tensor([{written}])" if written else ""
    return join_lines(
        [*imports, TORCH, "logit_lens"],
        *lines,
        f"lens = logit_lens(model, torch.tensor([{read}]){target})  # [layers + 1, places, vocabulary]",
        "for p, tokens in zip(*lens.exp().max(-1)):",
        "    print(tokens.tolist(), p.tolist())",
    )


def patching_snippet(
    opened: LoadedModel, read: list[int], changed: list[int], written: list[int], place: int
) -> str:
    """Explore: what each place of each layer brings back in a changed text."""
    imports, lines = model_lines(opened)
    target = f", torch.tensor([{written}])" if written else ""
    return join_lines(
        [*imports, TORCH, "patch_activations"],
        *lines,
        f"clean, changed = torch.tensor([{read}]), torch.tensor([{changed}])",
        f"found = patch_activations(model, clean, changed{target}, place={place})",
        "print(found.answer, found.clean, found.changed, found.recovery)  # recovery: [layers, places]",
    )


def each_head_snippet(opened: LoadedModel, counted: int) -> str:
    """Explore: held-out accuracy without each head."""
    imports, lines = model_lines(opened)
    return join_lines(
        [*imports, "list_trials", "measure_outcomes"],
        *lines,
        "heads = [trial for trial in list_trials(model) if trial.interventions[0].head is not None]",
        f"whole, *outcomes = measure_outcomes(model, {task_variable(opened)}, heads, {counted})",
        "for outcome in outcomes:",
        "    print(outcome.trial.name, outcome.exact_match, outcome.drop, outcome.standard_error)",
    )


def roles_snippet(opened: LoadedModel, read: list[int], written: list[int], text: str) -> str:
    """Explore: head roles on one input, beside uniform attention."""
    imports, lines = model_lines(opened)
    alignment = ""
    if opened.task is not None and written:
        task, alignment = task_variable(opened), ", alignment"
        lines.append(f"alignment = {task}.alignment({text!r}, {task}.decode({written}))")
    elif opened.task is not None and opened.predicts:
        task, alignment = task_variable(opened), ", alignment"
        words = opened.task.join_target(opened.task.split_source(text))
        lines.append(f"alignment = {task}.alignment('', {words!r})")
    return join_lines(
        [*imports, "attention_maps", "measure_even_attention", "measure_heads"],
        *lines,
        f"maps = attention_maps(model, {input_arguments(opened, read, written)})",
        "maps = maps.relabel(tokenizer.convert_ids_to_tokens)",
        f"roles, even = measure_heads(maps{alignment}), measure_even_attention(maps{alignment})",
        "for kind, figures in roles.items():",
        "    print(kind, figures, even[kind])  # figures: [layers, heads]",
    )


def held_out_roles_snippet(opened: LoadedModel, counted: int) -> str:
    """Explore: head roles on held-out examples, beside the untrained model."""
    imports, lines = model_lines(opened)
    return join_lines(
        [*imports, "measure_head_roles"],
        *lines,
        f"roles = measure_head_roles(model, {task_variable(opened)}, {counted})",
        "print(roles.trained, roles.untrained, roles.even)",
    )


def theory_snippet(opened: LoadedModel, read: list[int], written: list[int], kind: str) -> str:
    """Explore: theory views of one head on one input."""
    imports, lines = model_lines(opened)
    imports += ["attention_maps", "measure_theory", "build_attention_mask"]
    return join_lines(
        [*imports, "distance_profile", "singular_values"],
        *lines,
        f"maps = attention_maps(model, {input_arguments(opened, read, written)})",
        f'kind, layer, head = "{kind}", 0, 0',
        "weights = getattr(maps, kind)[layer, head]  # [queries, keys]",
        "may_attend = build_attention_mask(kind, *weights.shape)",
        "views = measure_theory(weights[None, None], may_attend)",
        "print({name: figure.item() for name, figure in views.items()})",
        "sigma = singular_values(weights)",
        "offsets, profile = distance_profile(weights.double(), may_attend)",
        "print(sigma, offsets, profile)",
    )


def cell_snippet(opened: LoadedModel, read: list[int], written: list[int], cell: Sequence) -> str:
    """Explore: query, key and value of a cell (kind, layer, head, query, key), and its weight."""
    imports, lines = model_lines(opened)
    kind, layer, head, query, key = cell
    place = f"kind={kind!r}, layer={layer}, head={head}"
    return join_lines(
        [*imports, "read_head"],
        *lines,
        f"head = read_head(model, {input_arguments(opened, read, written)}, {place})",
        f"cell = head.explain({query}, {key})",
        "print(cell.query, cell.key, cell.chosen.value, cell.chosen.score, cell.chosen.weight)",
    )


def answer_snippet(opened: LoadedModel, text: str, how: dict) -> str:
    """Try: the text written with a strategy and its settings; for a classifier, the class."""
    imports, lines = model_lines(opened)
    ids, strategy = opened.encode(text), how.get("strategy", "greedy")
    arguments = [repr(strategy)] if strategy != "greedy" else []
    used = [parameter.name for parameter in STRATEGIES[strategy].used]  # every board shows a temperature
    arguments += [f"{name}={value!r}" for name, value in how.items() if name in used]
    arguments += [f"max_new_tokens={opened.most_own(len(ids))}"] if opened.kind != CLASSES else []
    if opened.kind == CLASSES:
        last = "print(model.config.id2label[answer.ids[0]], answer.score)"
    else:
        last = "print(tokenizer.decode(answer.ids, skip_special_tokens=True), answer.score)"
    return join_lines(
        [TORCH, *imports, "generate_answer"],
        *lines,
        f"source = torch.tensor([{ids}])  # {text!r}",
        f"answer = generate_answer(model, {', '.join(['source', *arguments])})",
        last,
    )


def run_snippet(run: TrainingJob) -> str:
    """Train: the same run, then the map of its probe; empty before the probe is chosen."""
    if run.probe is None:
        return ""
    imports, lines = training_lines(run)
    batch = run.probe.batch
    probe = f"Batch(torch.tensor({batch.input_ids.tolist()}), torch.tensor({batch.labels.tolist()}))"
    source = f"  # {run.probe.source!r}" if run.probe.source else ""
    return join_lines(
        [*imports, "Batch", "attention_maps"],
        *lines,
        f"probe = {probe}{source}",
        "found = attention_maps(model, probe).answering",
        "if found is not None:",
        "    print(found.weights)  # [layers, heads, queries, keys]",
    )


def comparison_snippet(runs: Sequence[TrainingJob]) -> str:
    """Train: several runs, each trained again, with results and maps."""
    trained = [
        f"{run_snippet(run)}\nreports[{run.name!r}], maps[{run.name!r}] = report, found"
        for run in runs
        if run.probe is not None
    ]
    compared = [
        "for name, report in reports.items():",
        "    print(name, report.step, report.loss, report.validation_exact_match)",
    ]
    return "\n\n".join(["reports, maps = {}, {}", *trained, "\n".join(compared)])


def duel_snippet(runs: Sequence[TrainingJob], budget: Budget) -> str:
    """Duel: the same models with the same seed and budget."""
    recipes = (f"    {run.recipe.architecture!r}: {recipe_call(run.recipe)}," for run in runs)
    spends = next(
        f"{name}={value!r}" for name, value in dataclasses.asdict(budget).items() if value is not None
    )
    return join_lines(
        ["Budget", "Recipe", "build_task", "duel"],
        f"task = {task_call(runs[0].task)}",
        "contestants = {",
        *recipes,
        "}",
        "scores = {}",
        f"for turn in duel(task, contestants, Budget({spends}), seed={runs[0].seed}):",
        "    if turn.evaluation:",
        "        scores[turn.name] = turn.evaluation.overall.exact_match",
        "print(scores)",
    )


def exercise_snippet(written: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """Attention: the figures of the exercise as they were typed, checked one by one."""
    return join_lines(
        ["check_hand_exercise"],
        f"written = {dict(written)!r}",
        "for name, lines in check_hand_exercise(written).items():",
        "    for line in lines:",
        "        print(name, [check.is_right for check in line])",
    )


def qkv_steps_snippet() -> str:
    """Attention: from one vector for everything to query, key and value."""
    return join_lines(
        ["separate_query_key_value"],
        "steps = separate_query_key_value()",
        "for step in steps:",
        "    print(step.title, step.asymmetry)",
        "place = 0",
        "print(steps[place].head.weights)  # [queries, keys]",
    )


def positions_snippet(position_type: str, settings: PositionSettings, words: Sequence[str]) -> str:
    """Positions: the pictures of one encoding, and the effect of another word order."""
    return join_lines(
        ["PositionSettings", "measure_order_sensitivity", "view_position_encoding"],
        f"settings = {settings!r}",
        f"pictures = view_position_encoding({position_type!r}, settings)",
        "for picture in pictures:",
        "    print(picture.name, picture.values)",
        f"order = measure_order_sensitivity({position_type!r}, settings, {list(words)!r})",
        "print(order)",
    )


def length_test_snippet(test: LengthTest, types: Sequence[str], seed: int, rounds: int, examples: int) -> str:
    """Positions: train on short examples, measure on longer ones."""
    return join_lines(
        ["LengthTest", "run_length_test"],
        f"test = {test!r}",
        "scores = {}",
        f"for position_type in {list(types)!r}:",
        f"    settings = {{'seed': {seed}, 'rounds': {rounds}, 'examples': {examples}}}",
        "    for report in run_length_test(test, position_type, **settings):",
        "        scores[position_type] = report.scores",
        "    print(position_type, scores[position_type])",
    )


def tokens_snippet(text: str, merges: int) -> str:
    """Language: byte pairs learned from a text."""
    return join_lines(
        ["learn_bpe_merges"],
        f"steps = learn_bpe_merges({text!r}, {merges})",
        "for step in steps:",
        "    print(step.merge, step.count, len(step.vocabulary), step.pieces)",
    )


def bags_snippet(one: Sequence[str], other: Sequence[str]) -> str:
    """Language: two sentences of the same words."""
    return join_lines(
        ["compare_word_orders"],
        f"found = compare_word_orders({list(one)!r}, {list(other)!r})",
        "for row in found.rows:",
        "    print(row.word, row.distance)",
    )


def word_order_snippet(sizes: WordOrderSizes, seed: int) -> str:
    """Language: learn which of two came first, without and with positions."""
    return join_lines(
        ["WordOrderSizes", "learn_word_order"],
        f"for models in learn_word_order({sizes!r}, {seed}):",
        "    pass",
        "for model in models:",
        "    print(model.name, model.points[-1], model.held_out)",
    )


def ngrams_snippet(reading: str, prompt: str) -> str:
    """Language: n-gram tables counted from a text; `reading` is the call that reads it."""
    return join_lines(
        ["count_ngrams", "predict_next_words", reading.partition("(")[0]],
        f"passages = {reading}",
        "tables = list(count_ngrams(passages))",
        "for table in tables:",
        f"    print(table.context, table.perplexity, predict_next_words(passages, table, {prompt!r}).words)",
    )


def word_vectors_snippet(text: str | None, kind: str, words: Sequence[str], *, is_composed: bool) -> str:
    """Language: word vectors of a text, of the composed sentences, or of the docstrings."""
    if is_composed:
        imports, reading = ["compose_country_sentences"], "compose_country_sentences()"
    elif text is not None:
        imports, reading = ["split_sentences"], f"split_sentences({text!r})"
    else:
        imports = ["build_task", "split_sentences"]
        reading = "[one for row in build_task('topics').rows for one in split_sentences(row.source)]"
    word, *three = words
    return join_lines(
        [*imports, "choose_word_vector_settings", "learn_word_vectors"],
        f"sentences = {reading}",
        f"vectors = learn_word_vectors(sentences, choose_word_vector_settings(sentences, {kind!r}))",
        f"print(vectors.neighbours({word!r}, 8))",
        f"print(vectors.analogy({', '.join(map(repr, three))})[:8])",
    )
