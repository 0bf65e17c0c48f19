"""One line of HTML: a screen's sentence, an origin, what is wrong with a field, what happens."""

import html

import gradio as gr

from hf_attn.architectures.families import is_recurrent

from .formatting import DEVICES, name_architecture, plain

BRAND = """<div class="hf-top"><b><svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">\
<g fill="var(--hf-att-2)"><rect x="8" width="6" height="6" rx="1"/><rect y="8" width="6" height="6" rx="1"/>\
<rect x="16" y="8" width="6" height="6" rx="1"/><rect x="8" y="16" width="6" height="6" rx="1"/></g>\
<g fill="var(--hf-accent)"><rect width="6" height="6" rx="1"/><rect x="8" y="8" width="6" height="6" rx="1"/>\
<rect x="16" y="16" width="6" height="6" rx="1"/></g>\
<g fill="var(--hf-line)"><rect x="16" width="6" height="6" rx="1"/>\
<rect y="16" width="6" height="6" rx="1"/></g>\
</svg>hf_attn</b></div>"""


Part = str | tuple[str, str]  # of a sentence: text, or (tag, text): b, code, i, button, em

# em: not shown where a link hides the answers
VERDICTS: dict[bool | None, list[Part]] = {
    True: [("em", ", which is right")],
    False: [("em", ", which is wrong")],
    None: [],
}


def headline(parts: list[Part], more: str = "") -> str:
    """A screen's one sentence, in large letters, and HTML behind it."""
    pieces = [("span", part) if isinstance(part, str) else part for part in parts]
    inside = "".join(f"<{tag}>{html.escape(plain(text))}</{tag}>" for tag, text in pieces)
    return f'<h1 class="hf-headline">{inside}{more}</h1>'


def origin(model: str, weights: str, device: str, *, url: str | None = None) -> str:
    """Where the numbers come from: model, linked to `url`, weights (step 240) and device."""
    named, *facts = (html.escape(plain(fact)) for fact in (model, weights, device))
    facts = [f'<a href="{url}" target="_blank" rel="noreferrer">{named}</a>' if url else named, *facts]
    pairs = zip(("model", "weights", "device"), facts, strict=True)
    spans = "".join(f"<span>{name} <b>{fact}</b></span>" for name, fact in pairs)
    return f'<div class="hf-origin">{spans}</div>'


NOTHING = origin("none yet", "none", "none")


def origin_of(model, weights: str, name: str = "") -> str:
    """The origin line of a model, by this name or else by that of one of ours."""
    weight = next(model.parameters())
    device = DEVICES.get(weight.device.type, weight.device.type)
    name = name or name_with_sizes(model.config)
    return origin(name, weights, f"{device}, {str(weight.dtype).removeprefix('torch.')}")


def name_with_sizes(config) -> str:
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    if config.is_encoder_decoder:
        layers = f"{config.encoder_layers}+{config.decoder_layers}"
    name = f"{name_architecture(config)}, {layers} layer{'' if layers == 1 else 's'}"
    return name if is_recurrent(config) else f"{name}, {heads} head{'' if heads == 1 else 's'}"


def field_error(sentence: str = "") -> str:
    """A sentence for a `gr.HTML(elem_classes="hf-field-error")` under a field; empty hides it."""
    return f'<p role="alert">{html.escape(plain(sentence))}</p>' if sentence else ""


def note(sentence: str, *, later: str = "") -> str:
    """A quiet sentence on what happens, and one that replaces it after a while."""
    if not later:
        return f'<p class="hf-hint" role="status">{html.escape(plain(sentence))}</p>'
    spans = {"hf-soon": sentence, "hf-later": later}
    both = "".join(f'<span class="{name}">{html.escape(text)}</span>' for name, text in spans.items())
    return f'<p class="hf-hint" role="status">{both}</p>'


def refusal(sentence: str) -> str:
    """Why nothing was started; it is shown as long as a field is marked as wrong."""
    return f'<p class="hf-refused" role="status">{html.escape(plain(sentence))}</p>'


def build_lead(sentence: list[Part], origin_line: str, elem_id: str | None = None) -> tuple[gr.HTML, gr.HTML]:
    """Lay out a tab's first row: its sentence, and where the numbers come from (`elem_id` is of that)."""
    with gr.Row(elem_classes="hf-lead"):
        return gr.HTML(headline(sentence)), gr.HTML(origin_line, elem_id=elem_id)


def build_error_line(elem_id: str) -> gr.HTML:
    return gr.HTML("", elem_classes="hf-field-error", elem_id=elem_id)
