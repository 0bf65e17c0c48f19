"""The look of the app: what every tab shares.

`HEAD` holds all styles and scripts for `demo.launch(head=HEAD, theme=THEME)`; nothing comes from another
server. `look_for` and `origin` are the lines on top of a tab. `train_board`, `runs_table`,
`try_board` and `explore_board` are pictures: each is a `gr.HTML` whose value is `to_json(value)` and whose
drawing is in `demos/assets/*.js`, made of the components in `hf_attn/viz/web`. As an output it wants
`show_progress="hidden"`. Its template is constant: what a person typed or a model wrote goes in the value
only, because gr.HTML evaluates `{{…}}` and `${…}`.

Events. A `gr.HTML` sends any event whose quoted name stands in its `js_on_load`; in Python that is a method
of the component, and a subclass of `events.Event` names what was sent. Gradio drops an event that comes while
the last one is still being handled, unless it is wired with `trigger_mode="multiple"`:

    runs = runs_table("runs")
    def open_run(event: RunEvent): return load(event.run)
    runs.open_run(open_run, outputs=…, trigger_mode="multiple")

Classes of layout: `gr.Row(elem_classes="hf-lead")` around look-for and origin,
`gr.Row(elem_classes="hf-work")` around a settings column (`gr.Column(elem_classes="hf-panel")`) and a column
with the board; those of Gradio's own components stand in gradio.css.

Light and dark: Gradio puts the class `dark` on `<body>` (the reader's system setting, or `?__theme=dark`);
every colour is a variable of tokens.css, and every canvas draws itself again when that class changes.
"""

import html
import re
import traceback
from collections.abc import Sequence
from pathlib import Path

import gradio as gr

from hf_attn.architectures.map_sizes import is_recurrent
from hf_attn.architectures.registry import ARCHITECTURES
from hf_attn.evaluation.baselines import NAME, Baseline
from hf_attn.tasks.tokenizers.trained import SPACE
from hf_attn.viz import web

ASSETS = Path(__file__).parents[1] / "assets"
STYLES = (  # after those of the canvas components
    *("gradio.css", "app.css", "train.css", "try.css", "duel.css", "attention.css", "language.css"),
    *("positions.css", "checks.css", "link.css", "share.css"),
)
SCRIPTS = (  # after the canvas components, in this order
    *("removal.js", "train_state.js", "train_panels.js", "train_board.js", "runs_table.js"),
    *("distribution.js", "beam_tree.js", "try_panels.js", "try_board.js"),
    "compare_board.js",
    *("duel_panels.js", "duel_board.js"),
    *("arithmetic.js", "printed.js", "attention_board.js", "hand_board.js", "roles_board.js"),
    *("language_board.js", "language_tokens.js", "language_order.js", "language_ngrams.js"),
    "language_neighbours.js",
    *("positions_panels.js", "positions_board.js"),
    *("checks_panels.js", "checks_board.js"),
    *("answers.js", "link_board.js", "share_board.js", "fields.js"),
)
SHOWN_FRAMES, LONGEST_ERROR = 12, 1000  # of a traceback in the log; characters of its error
LONGEST_LINE = 300  # characters of a sentence in the log
# names of installed fonts: Gradio's own themes would ask Google for theirs
FONT = ["Inter", "system-ui", "sans-serif"]
FONT_MONO = ["ui-monospace", "monospace"]


def load_head() -> str:
    """Return every style and script of the app as one piece of `<head>`.

    What a view saved as one page takes with it is marked; the style of that page sleeps here.
    """
    pieces = (
        ('style data-hf="canvas"', map(web.read_asset, web.STYLES)),
        ('style data-hf="canvas" media="not all"', [web.read_asset("page.css")]),
        ("style", (web.read_asset(name, ASSETS) for name in STYLES)),
        ('script data-hf="canvas"', map(web.read_asset, web.SCRIPTS)),
        ("script", (web.read_asset(name, ASSETS) for name in SCRIPTS)),
    )
    return "\n".join("<{}>\n{}\n</{}>".format(tag, "\n".join(texts), tag.split()[0]) for tag, texts in pieces)


HEAD = load_head()
THEME = gr.themes.Base(font=FONT, font_mono=FONT_MONO)


# ---------------------------------------------------------------- values


encode_maps, to_json = web.encode_maps, web.to_json


# ---------------------------------------------------------------- numbers, tokens and models in words

NARROW = "\u202f"
DEVICES = {"cpu": "CPU", "cuda": "GPU", "mps": "Apple GPU"}
ENDS = {"</s>": "end", "<s>": "start"}
UNSEEN = re.compile(  # Unicode's controls, ends of lines and signs of direction
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
ENDLESS = re.compile(r"(\S{60})\S+")
MOST_SAID = 800  # characters of a sentence


def count(number: int) -> str:
    """Write a whole number with narrow spaces: 1 240."""
    return f"{number:,}".replace(",", NARROW)


def percent(share: float, digits: int = 1) -> str:
    """Write a share: 93.5 %."""
    return f"{100 * share:.{digits}f}{NARROW}%"


def size_in_words(model) -> str:
    """Write a model's number of parameters: 928 k, 3.9 M."""
    return in_thousands(sum(weight.numel() for weight in model.parameters()))


def in_thousands(number: int) -> str:
    """Write a number of parameters, rounded as the boards do: 928 k, 3.9 M."""
    return f"{number / 1e6:.1f}{NARROW}M" if number >= 1e6 else f"{(number + 500) // 1000}{NARROW}k"


def name_architecture(config) -> str:
    """Name a model as the list of architectures does: Transformer; LSTM, dot attention (Luong)."""
    for architecture in (row for rows in ARCHITECTURES.values() for row in rows.values()):
        fields = architecture.fields.items()
        if architecture.config.model_type == config.model_type and all(
            getattr(config, name, None) == value for name, value in fields
        ):
            return architecture.title
    return config.model_type


def name_model(run) -> str:
    """Describe a run in the table: 928 k, 1 240 steps, seed 0, 0:31."""
    steps = f"{count(run.step)} step{'' if run.step == 1 else 's'}"
    return f"{size_in_words(run.model)}, {steps}, seed {run.seed}, {clock(run.seconds)}"


def clock(seconds: float) -> str:
    """Minutes and seconds: 1:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def label_tokens(tokens) -> list[str]:
    """Name tokens as people do: `</s>` is the end, `<s>` the start; a sign for a space is a space."""
    return [ENDS.get(token, token.replace(SPACE, " ")) for token in tokens]


def thin(items: list, most: int) -> list:
    """At most so many, evenly chosen, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def said_once(frames: list[dict]) -> list[dict]:
    """The frames, with predictions only where they are new: the board shows the last ones until then."""
    said, told = [], None
    for frame in frames:
        is_new = frame["predictions"] is not told
        told = frame["predictions"]
        said.append(frame if is_new else {name: frame[name] for name in frame if name != "predictions"})
    return said


def in_order(names: Sequence[str], /, **changes) -> list:
    """Outputs in the order of these names; what is not named stays."""
    return [changes.get(name, gr.skip()) for name in names]


def shorten(text: str, most: int) -> str:
    """Cut a text to so many characters, with … behind."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def in_one_line(text: object, most: int = LONGEST_LINE) -> str:
    """Return what somebody sent or an error quotes as one short line of the log."""
    return shorten(" ".join(str(text).split()), most)


def tell_failure(error: Exception) -> str:
    """Return the end of a traceback with its error, cut where it quotes a long text."""
    frames = "".join(traceback.format_tb(error.__traceback__)[-SHOWN_FRAMES:])
    return f"{frames}{type(error).__name__}: {in_one_line(error, LONGEST_ERROR)}"


def wrong_symbols(symbols, verdict) -> list[bool]:
    """Say which of the written symbols are wrong; from the last, since a verdict may add leading zeros."""
    flags = list(verdict.wrong)[-len(symbols) :] if symbols else []
    return [False] * (len(symbols) - len(flags)) + flags


def origin_of(model, weights: str) -> str:
    """Return the origin line of a model: what it is, which weights, where they are."""
    config, weight = model.config, next(model.parameters())
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    if config.is_encoder_decoder:
        layers = f"{config.encoder_layers}+{config.decoder_layers}"
    name = f"{name_architecture(config)}, {layers} layer{'' if layers == 1 else 's'}"
    if not is_recurrent(config):
        name += f", {heads} head{'' if heads == 1 else 's'}"
    device = DEVICES.get(weight.device.type, weight.device.type)
    return origin(name, weights, f"{device}, {str(weight.dtype).removeprefix('torch.')}")


def plain(sentence: str) -> str:
    """Return a sentence that may quote anything: � for what is unseen or turns lines, … for what is long."""
    said = ENDLESS.sub(r"\1…", UNSEEN.sub("\ufffd", sentence))
    return said if len(said) <= MOST_SAID else f"{said[: MOST_SAID // 2]}… {said[-MOST_SAID // 4 :]}"


def field_error(sentence: str = "") -> str:
    """Return one sentence for a `gr.HTML(elem_classes="hf-field-error")` under a field; empty hides it."""
    return f'<p role="alert">{html.escape(plain(sentence))}</p>' if sentence else ""


def note(sentence: str, *, later: str = "") -> str:
    """Return a quiet sentence on what happens, and one that takes its place after a while."""
    if not later:
        return f'<p class="hf-hint" role="status">{html.escape(plain(sentence))}</p>'
    spans = {"hf-soon": sentence, "hf-later": later}
    both = "".join(f'<span class="{name}">{html.escape(text)}</span>' for name, text in spans.items())
    return f'<p class="hf-hint" role="status">{both}</p>'


def refusal(sentence: str) -> str:
    """Return why nothing was started; it is shown as long as a field is marked as wrong."""
    return f'<p class="hf-refused" role="status">{html.escape(plain(sentence))}</p>'


def tell_baseline(baseline: Baseline | None) -> dict | None:
    """The baseline as the boards draw it: a level over the whole run."""
    if baseline is None:
        return None
    score = baseline.score
    figures = {"held_out": score.exact_match, "interval": [score.interval.low, score.interval.high]}
    return {"name": NAME, "parameters": baseline.parameters, "seconds": baseline.seconds, **figures}


# ---------------------------------------------------------------- lines of a page

BRAND = """<div class="hf-top"><b><svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">\
<g fill="var(--hf-att-2)"><rect x="8" width="6" height="6" rx="1"/><rect y="8" width="6" height="6" rx="1"/>\
<rect x="16" y="8" width="6" height="6" rx="1"/><rect x="8" y="16" width="6" height="6" rx="1"/></g>\
<g fill="var(--hf-accent)"><rect width="6" height="6" rx="1"/><rect x="8" y="8" width="6" height="6" rx="1"/>\
<rect x="16" y="16" width="6" height="6" rx="1"/></g>\
<g fill="var(--hf-line)"><rect x="16" width="6" height="6" rx="1"/>\
<rect y="16" width="6" height="6" rx="1"/></g>\
</svg>hf_attn</b>\
<span>Every number of an attention layer</span></div>"""


def look_for(sentence: str) -> str:
    """Return the tab's one sentence, after the words "Look for"; at most 25 words."""
    return f'<p class="hf-look"><b>Look for</b>{html.escape(plain(sentence))}</p>'


def origin(model: str, weights: str, device: str) -> str:
    """Return where the numbers come from: model, weights (untrained, step 240, a Hub id) and device."""
    facts = {"model": model, "weights": weights, "device": device}
    spans = "".join(f"<span>{name} <b>{html.escape(plain(fact))}</b></span>" for name, fact in facts.items())
    return f'<div class="hf-origin">{spans}</div>'


# ---------------------------------------------------------------- boards


def board(name: str, css_class: str, elem_id: str, template: str, events: tuple[str, ...] = ()) -> gr.HTML:
    """Build a picture that JavaScript draws; its value is `to_json(value)`.

    Args:
        name: under which the script in demos/assets registered it.
        css_class: of the element that it draws in; the block around it has it with `-block` behind.
        elem_id: of the block.
        template: the constant HTML that holds the element.
        events: names of what it may send.
    """
    sent = ", ".join(
        f'"{event}"' for event in events
    )  # gr.HTML offers the events whose quoted names it finds
    return gr.HTML(
        elem_id=elem_id,
        elem_classes=[f"{css_class}-block"],
        html_template=template,
        js_on_load=f'hfAttn.mount("{name}", {{ id: "{elem_id}", element, props, watch, trigger }}); '
        f"// sends: {sent}",
        apply_default_css=False,
    )


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

    Messages may be lost or merged by the browser: repeat recent points and frames in each; the last has all
    that is kept. They are merged by step within one run; a null never hides what was measured before.
    `on_known` is drawn only for a run without maps or truth, else the board works it out from the maps of the
    chosen head.

    A `gr.Button(elem_classes="train")` of the page shows its progress.
    """
    return board("train_board", "hf-train", elem_id, '<div class="hf-train hf-board"></div>@children')


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
    return board("runs_table", "hf-runs", elem_id, '<div class="hf-runs hf-board"></div>', events)


def compare_board(elem_id: str) -> gr.HTML:
    """Build the comparison of this run with those laid over it; nothing is seen while there are none.

    Value: `to_json({"runs": [whole messages, as the train board takes them, each with its "name"],
    "python": lines that train these and the shown run again})`.
    """
    return board("compare_board", "hf-compare", elem_id, '<div class="hf-compare hf-board"></div>')


def try_board(elem_id: str) -> gr.HTML:
    """Build the picture of one answer: symbols, verdict, tree, distributions, beams and its map.

    Value: `to_json` of None or a dict; all but `written` may be left out.

        written         [{token, probability}];  wrong [bool] beside it;  text "ASSIGN x ADD 1 2"
        steps           [place in distributions] beside it
        correct         True | False | None;  check "the same as Python's ast";  answer: the right one
        tree            {label, sign, children, wrong, expected} or None
        passage         of a language model: {prompt, text}
        log_probability, per_token
        map             {kind "cross" | "alignment" | "decoder" | "encoder", title, rows, cols, truth,
                        allowed, maps: encode_maps([L, H, rows, cols]), shape}; kind None: no attention

    All these tell the best answer; `others` has the same of other beams or draws, `seeds` those of all draws.

        distributions   [{names, log_p, more, weights}], each from the largest; `more` symbols are not named,
                        `weights` is what they weigh together at each temperature of the slider
        how             {strategy, temperature, top_k, top_p, num_beams, seed}, as far as they are used
        beams           {nodes: [{token, parent, p, score, fate, step, map}], ends, maps}: parents first;
                        they count from 1, 0 is the beginning; `step` is a place in distributions, `map` one
                        among the maps of the answers and then of `maps`; `ends` are the answers' last nodes
        removal         of a classifier: {class, before, words: [{word, drop, left, turns}]}
        source, chosen  what was asked of which checkpoint: the same again keeps the chosen step

    Event `rewrite`: the reader wants the answer with the settings as they stand.
    """
    return board("try_board", "hf-try", elem_id, '<div class="hf-try hf-board"></div>', ("rewrite",))


def explore_board(elem_id: str) -> gr.HTML:
    """Build the lens: all heads at a glance, one map large, one token's view, entropy, sink and known answer.

    The contract of its value and of its events stands at the top of hf_attn/viz/web/explore_board.js.
    """
    events = ("pick", "fetch", "look_inside", "move_window")
    return board("explore_board", "hf-explore", elem_id, '<div class="hf-explore hf-board"></div>', events)


def duel_board(elem_id: str) -> gr.HTML:
    """Build the picture of a duel: curves, accuracy by size, standings, and the maps side by side.

    Value: `to_json` of None or a dict with everything, each time.

        duel            which one; a new number starts afresh
        status          "running" | "stopped" | "finished" | "error";  message: what failed
        done            0 to 1;  measured: whether the figures by size are all there
        task, metric, size_name, probe, answer;  baseline {name, parameters, seconds, held_out, interval} or
                        None;  budget {steps, seconds}, one of them None
        contestants     two to four of {id, name, model, parameters, status, message, step, steps, seconds,
                        spent, held_out, examples, interval [low, high], loss, kept,
                        points [{step, seconds, held_out, loss}],
                        sizes [{from, to, examples, held_out, low, high}],
                        map {maps: encode_maps([heads, rows, cols]), heads, rows, cols, truth, layer, step,
                        source: how many of the columns} or None,
                        written {written, wrong, right, answer}}

    Events `keep_run` and `download_run` with `event.run` (the id). The page's button `duel-start` shows its
    progress.
    """
    events = ("keep_run", "download_run")
    return board("duel_board", "hf-duel", elem_id, '<div class="hf-duel hf-board"></div>', events)
