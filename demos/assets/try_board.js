"use strict";
/* The Try tab's board: what was written, with each step's distribution and its cut; the verdict; the tree; the other
   answers of a beam; the map in which the answer reads the input. One chosen symbol drives distribution and map.
   Of a classifier: the class, the probabilities of all, and what changes when a word is taken out.
   The value's contract is in demos/shared.py. */
(hfAttn => {
  const { el, number, range, shown, unpack, meanOf } = hfAttn;

  const SMALL = 12; // keys of a map that has room under the answer, beside the distribution

  const verdict = () => {
    const box = el("span", "hf-verdict");
    const update = ({ correct, check, answer }) => {
      const known = correct === true || correct === false;
      const words =
        correct === false
          ? ["wrong", answer ? `is ${answer}` : check].filter(Boolean).join(", ")
          : check || (correct ? "right" : "no check for this task");
      box.className = "hf-verdict" + (correct === false ? " no" : "");
      box.replaceChildren(known ? el("i", correct ? "yes" : "no") : "", words);
    };
    return { element: box, update };
  };

  /* ---- one step's distribution ---- */

  const distribution = host => {
    const list = el("div", "hf-dist");
    list.setAttribute("role", "table");
    list.setAttribute("aria-label", "What could come next");
    host.append(list);
    const line = (role, ...cells) => {
      const row = el("div", "line", ...cells);
      row.setAttribute("role", "row");
      cells.forEach(cell => cell.setAttribute("role", role));
      return row;
    };
    const head = what =>
      line(
        "columnheader",
        el("span", "", what),
        el("span", "", "probability"),
        el("span", "n"),
        el("span", "n", "so far"),
        el("span", "n opt", "after the cut"),
      );
    const bar = (entry, top) => {
      const b = el("i", entry.kept === false ? "off" : "");
      b.style.width = (100 * entry.probability) / top + "%";
      return el("span", "", b);
    };
    const figures = (entry, soFar) => [
      el("span", "n", number(entry.probability, 3)),
      el("span", "n", number(soFar, 3)),
      el("span", "n opt", entry.kept === false ? "0" : number(entry.after ?? NaN, 3)),
    ];
    const update = (entries, cut, what = "symbol") => {
      let soFar = 0;
      let wasKept = true;
      const top = Math.max(...entries.filter(e => e.token !== undefined).map(e => e.probability), 1e-9);
      const lines = [head(what)];
      for (const entry of entries) {
        soFar += entry.probability;
        const rest = entry.more !== undefined;
        const kept = entry.kept !== false && !rest;
        if (wasKept && !kept && cut) lines.push(el("div", "cut", el("span", "", cut)));
        wasKept &&= kept;
        const name = rest ? `${entry.more} more` : what === "class" ? entry.token : shown(entry.token);
        const row = line(
          "cell",
          el("span", "hf-mono", name),
          rest ? el("span") : bar(entry, top),
          ...figures(rest ? { ...entry, kept: entry.kept ?? !cut } : entry, soFar),
        );
        if (!kept) row.classList.add("off");
        lines.push(row);
      }
      if (wasKept && cut) lines.push(el("p", "hf-hint", cut)); // nothing was cut here: say so without a rule
      list.replaceChildren(...lines);
    };
    return { update };
  };

  /* ---- panels ---- */

  const answerPanel = host => {
    const panel = hfAttn.panel("Answer");
    const said = verdict();
    const written = el("div", "hf-answer");
    const treeHost = el("div");
    const text = el("p", "hf-mono hf-astext");
    const tree = hfAttn.tree(treeHost);
    const name = () => "tree";
    const press = (words, what) => hfAttn.button(words, what, "");
    const asText = press("Show as text", () => {
      text.hidden = !text.hidden;
      asText.textContent = text.hidden ? "Show as text" : "Hide text";
      asText.setAttribute("aria-expanded", String(!text.hidden));
    });
    asText.setAttribute("aria-expanded", "false");
    text.hidden = true;
    panel.header.append(said.element);
    panel.body.append(written, treeHost, text);
    panel.footer.append(
      el(
        "div",
        "hf-take",
        press("PNG", () => tree.png(name())),
        press("SVG", () => tree.svg(name())),
        asText,
      ),
    );
    host.append(panel.section);
    const update = value => {
      const hasTree = Boolean(value?.tree);
      const tokens = (value?.written || []).map(w => w.token);
      const how = value?.removal ? "as the model reads it" : "as the model wrote it";
      panel.rename(hasTree ? "Tree" : value?.removal ? "Class" : "Answer", value ? how : "");
      said.element.hidden = !value;
      said.update(value || {});
      written.hidden = hasTree;
      const { prompt, text: goesOn } = value?.passage || {};
      written.replaceChildren(
        !value
          ? el("p", "hf-blank", "The answer will be drawn here, symbol by symbol.")
          : value.passage
            ? el("p", "hf-passage", el("span", "hf-quiet", prompt), el("b", "", goesOn))
            : hfAttn.symbols(tokens, value.wrong, value.removal ? String : shown),
      );
      treeHost.hidden = panel.footer.hidden = !hasTree;
      tree.update(value?.tree || null);
      text.textContent = value?.text ?? tokens.join(" ");
      if (!hasTree) text.hidden = true;
    };
    return { update };
  };

  const stepPanel = (host, onStep) => {
    const panel = hfAttn.panel("What could come next");
    const steps = el("div", "hf-steps");
    const dist = el("div");
    const bars = distribution(dist);
    steps.setAttribute("role", "group");
    steps.setAttribute("aria-label", "Step of the answer");
    panel.body.append(steps, dist);
    host.append(panel.section);
    const chip = (w, i, wrong, chosen) => {
      const b = hfAttn.button(shown(w.token), () => onStep(i), wrong ? "wrong" : "");
      b.append(el("small", "", number(w.probability, 2)));
      b.setAttribute("aria-pressed", String(chosen));
      if (wrong) b.append(el("span", "hf-sr", "wrong"));
      return b;
    };
    const update = (value, step) => {
      const written = value?.written || [];
      const entries = value?.steps?.[step];
      const first = Math.max(0, step - 12);
      const before = [first ? "…" : "", ...written.slice(first, step).map(w => shown(w.token))].join(" ").trim();
      if (value?.removal) panel.rename("What the text could be", "every class with its probability");
      else if (value)
        panel.rename(`Step ${step + 1}: what could come next`, before ? "after " + before : "after nothing yet");
      else panel.rename("What could come next", "");
      const focused = [...steps.children].indexOf(document.activeElement);
      steps.hidden = Boolean(value?.removal); // one step, and it stands beside
      steps.replaceChildren(...written.map((w, i) => chip(w, i, value.wrong?.[i], i === step)));
      if (focused >= 0) steps.children[focused]?.focus();
      dist.hidden = !entries;
      const cut = Array.isArray(value?.cut) ? value.cut[step] : value?.cut;
      if (entries) bars.update(entries, cut, value.removal ? "class" : "symbol");
      dist.classList.toggle("uncut", !cut);
      if (!value)
        steps.replaceChildren(
          el("p", "hf-blank", "Each symbol that could have been written, with its probability, will stand here."),
        );
    };
    return { update };
  };

  const otherPanel = host => {
    const panel = hfAttn.panel("Other answers", "the best of each beam, with the sum of log-probabilities");
    const body = el("tbody");
    const head = el(
      "tr",
      "",
      el("th", "", ""),
      el("th", "", "answer"),
      el("th", "num", "log p"),
      el("th", "num len", "÷ length"),
      el("th", "", "check"),
    );
    panel.body.append(el("table", "hf-ends", el("thead", "", head), body));
    host.append(panel.section);
    const row = (one, i, best) => {
      const chips = one.tokens.map((t, k) =>
        el("span", "hf-tok" + (i && t !== best.tokens[k] ? " other" : ""), shown(t)),
      );
      const said = [one.correct === true ? "right" : one.correct === false ? "wrong" : "", one.note]
        .filter(Boolean)
        .join(", ");
      return el(
        "tr",
        i ? "" : "won",
        el("td", "", String(i + 1)),
        el("td", "", el("div", "hf-tokens", ...chips)),
        el("td", "num", number(one.log_probability, 2)),
        el("td", "num len", number(one.per_token ?? NaN, 3)),
        el("td", one.correct === false ? "no" : "", said),
      );
    };
    const update = value => {
      const all = value?.alternatives || [];
      panel.section.hidden = !all.length;
      body.replaceChildren(...all.map((one, i) => row(one, i, all[0])));
    };
    return { update };
  };

  const answerMap = (host, onStep) => {
    const panel = hfAttn.panel("Attention of the answer");
    const none = el("p", "hf-blank", hfAttn.NO_ATTENTION);
    const mapHost = el("div");
    panel.body.append(none, mapHost);
    const layers = hfAttn.segment("Layer", l => pick({ layer: l }));
    const heads = hfAttn.segment("Head", h => pick({ head: h }));
    panel.header.append(
      el(
        "span",
        "hf-picks",
        el("span", "hf-label", "layer"),
        layers.element,
        el("span", "hf-label", "head"),
        heads.element,
      ),
    );
    const map = hfAttn.mapView(mapHost, {
      name: "Attention of the answer",
      rows: [],
      cols: [],
      values: [],
      onSelect: at => {
        key = at?.c ?? null;
        row = at?.r ?? 0;
        if (at && reads()) onStep(at.r);
        else show();
      },
    });
    panel.footer.append(
      map.exports(() => `${value.map.kind}-layer-${at.layer + 1}-${at.head ? "head-" + at.head : "mean"}`),
    );
    host.append(panel.section);
    const at = { layer: null, head: 0 };
    let value = null;
    let maps = null;
    let row = 0; // the step of the answer; where the input reads itself, a row of its own
    let key = null;
    const reads = () => value.map.kind !== "encoder";
    const pick = patch => {
      Object.assign(at, patch);
      show();
    };
    const show = () => {
      panel.section.hidden = !value?.map;
      none.hidden = Boolean(maps);
      mapHost.hidden = panel.header.lastChild.hidden = panel.footer.hidden = !maps;
      if (!value?.map) return;
      panel.rename(value.map.title || "Attention of the answer");
      if (!maps) return;
      for (const [part, many] of [[layers, maps.length > 1], [heads, maps[0].length > 1]])
        part.element.hidden = part.element.previousSibling.hidden = !many;
      layers.update(
        range(maps.length).map(l => String(l + 1)),
        at.layer,
      );
      heads.update(["mean", ...range(maps[0].length).map(h => String(h + 1))], at.head);
      const { rows, cols, truth, allowed } = value.map;
      const values = at.head ? maps[at.layer][at.head - 1] : meanOf(maps[at.layer]);
      map.update({
        rows,
        cols,
        values,
        truth: truth || null,
        allowed: allowed || null,
        selected: key === null || key >= cols.length || row >= rows.length ? null : { r: row, c: key },
        name: value.map.title,
      });
    };
    const update = (next, chosenStep) => {
      if (next !== value) {
        value = next;
        maps = next?.map?.kind ? unpack(next.map.maps, next.map.shape) : null;
        key = null;
        if (maps && (at.layer === null || at.layer >= maps.length)) at.layer = maps.length - 1;
        if (maps && at.head > maps[0].length) at.head = 0;
      }
      if (maps && reads()) row = chosenStep;
      show();
    };
    return { update, section: panel.section };
  };

  hfAttn.try_board = element => {
    const root = element.querySelector(".hf-try");
    const two = el("div", "hf-two");
    let value = null;
    let step = 0;
    root.append(two);
    const choose = i => {
      step = Math.min(i, (value?.written?.length || 1) - 1);
      show();
    };
    const map = answerMap(root, choose);
    const panels = [
      answerPanel(two),
      stepPanel(two, choose),
      hfAttn.removalPanel(two),
      otherPanel(root),
      map,
    ];
    const show = () => {
      const place = (value?.map?.cols?.length ?? 0) <= SMALL && !value?.removal ? two : root;
      if (map.section.parentElement !== place) place.append(map.section);
      panels.forEach(panel => panel.update(value, step));
    };
    const update = next => {
      value = next;
      const wrong = next?.wrong?.indexOf(true) ?? -1; // begin where it went wrong, else where it was least sure
      const sure = (next?.written || []).map(w => w.probability);
      step = wrong >= 0 ? wrong : Math.max(0, sure.indexOf(Math.min(...sure)));
      show();
    };
    return { update };
  };
})((window.hfAttn ||= {}));
