"use strict";
/* The Explore tab's board: all heads at a glance, one head large, one token's view, and figures of the chosen row and
   of the whole head. The chosen cell drives everything. The value's contract is in demos/shared.py.
   Each choice is sent to Python as the event pick {kind, layer, head, query, key}; query and key are null without a cell.
   What is chosen is also told to the boards beside it: hfAttn.lens.listen(host, view => …), until host leaves the page;
   hfAttn.lens.pick({kind, layer, head}) chooses from there. */
(hfAttn => {
  const { el, range, number, percent, sum, mean, unpack, named, clamp } = hfAttn;
  const TITLES = {
    encoder: "encoder self-attention",
    decoder: "decoder self-attention",
    cross: "cross-attention, written symbols read the input",
  };

  /* ---- figures of one row of weights ---- */

  const entropy = row => -sum(row.map(w => (w > 0 ? w * Math.log2(w) : 0)));
  const figuresOf = (data, map, r) => {
    const keys = data.allowed ? data.allowed[r].filter(Boolean).length : map[r].length;
    return {
      bits: entropy(map[r]),
      most: Math.log2(Math.max(1, keys)),
      first: map[r][0],
      reads: sum(map[r]) > 0,
      known: data.truth?.[r]?.some(Boolean) ? sum(map[r].map((w, c) => (data.truth[r][c] ? w : 0))) : null,
    };
  };
  const meanFigures = all => {
    const known = all.map(f => f.known).filter(v => v !== null);
    return {
      bits: mean(all.map(f => f.bits)),
      most: mean(all.map(f => f.most)),
      first: mean(all.map(f => f.first)),
      known: known.length ? mean(known) : null,
    };
  };

  /** The map as shown: the first key taken out and rows renormalised, then small weights left out. */
  const sieved = (map, { floor, sink }) => {
    const without = row => {
      const rest = sum(row.slice(1));
      return row.map((w, c) => (c && rest ? w / rest : 0));
    };
    return (sink ? map.map(without) : map).map(row => row.map(w => (w < floor ? 0 : w)));
  };

  /* ---- panels ---- */

  const gridPanel = (host, pick) => {
    const panel = hfAttn.panel("All heads at a glance", "rows are layers, columns are heads");
    const empty = el("p", "hf-blank", "The maps of every head will be drawn here.");
    const gridHost = el("div");
    const grid = hfAttn.headGrid(gridHost, { onPick: (layer, head) => pick({ layer, head }) });
    panel.section.classList.add("hf-glance");
    panel.body.append(empty, gridHost);
    host.append(panel.section);
    const update = ({ data, layer, head, silent }) => {
      empty.hidden = Boolean(data);
      empty.textContent = silent ? "No attention, no heads." : "The maps of every head will be drawn here.";
      gridHost.hidden = !data;
      if (data) grid.update({ maps: data.maps, layer, head });
    };
    return { update };
  };

  const factsPanel = host => {
    const pair = el("h3");
    const big = el("div", "hf-big");
    const note = el("p", "hf-hint");
    const body = el("tbody");
    const of = el("th", "num");
    const head = el("tr", "", el("th"), of, el("th", "num", "mean of rows"));
    const box = el(
      "div",
      "hf-cell",
      el("div", "", pair, big, note),
      el("table", "hf-facts", el("thead", "", head), body),
    );
    host.append(box);
    const line = (label, one, all) => el("tr", "", el("td", "", label), el("td", "num", one), el("td", "num", all));
    const headline = ({ data, map, selected }) => {
      pair.replaceChildren(
        ...(selected
          ? [
              el("span", "hf-q", named(data.rows, selected.r)),
              " reads ",
              el("span", "hf-k", named(data.cols, selected.c)),
            ]
          : ["No cell chosen"]),
      );
      const blocked = selected && data.allowed && !data.allowed[selected.r][selected.c];
      big.textContent = !selected ? "–" : blocked ? "masked" : number(map[selected.r][selected.c], 3);
    };
    const update = view => {
      const { data, map, shown, selected, row, sieve } = view;
      headline({ data, map: shown, selected });
      note.textContent = sieve.sink || sieve.floor ? "of what is shown; the figures below are of the whole map" : "";
      const all = map.map((_, r) => figuresOf(data, map, r));
      const one = all[row];
      const rest = meanFigures(all.filter(f => f.reads));
      of.replaceChildren(el("span", "hf-q", named(data.rows, row)));
      const known =
        rest.known === null
          ? []
          : [line("known answer", one.known === null ? "–" : percent(one.known), percent(rest.known))];
      body.replaceChildren(
        line("first key (sink)", percent(one.first), percent(rest.first)),
        ...known,
        line("entropy, bits", number(one.bits), number(rest.bits)),
        line("of at most", number(one.most), number(rest.most)),
      );
    };
    return { update };
  };

  const sieveRow = (host, change) => {
    const value = el("b");
    const sink = el("input");
    const floor = hfAttn.slider("hide below", 0, 0.5, 0.01, v => change({ floor: v }));
    sink.type = "checkbox";
    sink.onchange = () => change({ sink: sink.checked });
    host.append(
      el(
        "div",
        "hf-sieve",
        el("label", "", "hide below ", floor.element, value),
        el("label", "hf-switch", sink, "Hide the first token, renormalise"),
      ),
    );
    return ({ floor: low }) => {
      value.textContent = number(low);
      floor.update(low);
    };
  };

  const mapPanel = (host, board) => {
    const panel = hfAttn.panel("");
    const notice = el("p", "hf-notice");
    const stripHost = el("div", "hf-view");
    const one = el("div", "hf-one");
    const mapHost = el("div");
    const readers = hfAttn.tokenStrip(stripHost, { onPick: row => board.pick({ row }) });
    const read = hfAttn.tokenStrip(stripHost, { onPick: key => board.pick({ key }) });
    const map = hfAttn.mapView(mapHost, {
      name: "Attention map",
      rows: [],
      cols: [],
      values: [],
      onSelect: at => board.pick(at ? { row: at.r, key: at.c } : { key: null }),
    });
    one.append(mapHost);
    const facts = factsPanel(one);
    const showSieve = sieveRow(panel.footer, board.sieve);
    panel.header.append(
      map.exports(() => `attention-${board.kind()}-layer-${board.layer() + 1}-head-${board.head() + 1}`),
    );
    panel.body.append(notice, stripHost, one);
    host.append(panel.section);

    /** One token's view: in a self-attention the token that reads is one of the chips; else it has a strip of its own. */
    const showStrips = ({ data, shown, row }) => {
      const name = `One token's view: what ${named(data.rows, row)} reads`;
      const apart = data.rows.join("\n") !== data.cols.join("\n"); // in a decoder what is read is one step behind
      stripHost.lastChild.hidden = !apart;
      if (apart) {
        read.update({ labels: data.cols, weights: shown[row], chosen: null, name });
        readers.update({ labels: data.rows, weights: null, chosen: row, name: "The token that reads" });
      } else readers.update({ labels: data.rows, weights: shown[row], chosen: row, name });
    };
    const blank = sentence => {
      notice.hidden = false;
      notice.classList.add("hf-blank");
      notice.textContent = sentence;
    };
    const update = view => {
      const { data, layer, head, kind, title, untrained, shown, row, key, selected, silent } = view;
      const what = data?.title || TITLES[kind] || kind;
      for (const part of [stripHost, one, panel.footer]) part.hidden = !data;
      panel.header.lastChild.hidden = !data;
      if (!data) {
        panel.rename(silent ? "No map" : "One head", title);
        blank(
          silent
            ? `${hfAttn.NO_ATTENTION} There is no map to look into; Try shows what the model makes of the input.`
            : "Choose a checkpoint and an input; the map of one head will be drawn here.",
        );
        return;
      }
      const several = data.maps.length * data.maps[0].length > 1;
      panel.rename(
        several ? `Layer ${layer + 1}, head ${head + 1}` : "The one map",
        [what, title].filter(Boolean).join("; "),
      );
      notice.classList.remove("hf-blank");
      notice.hidden = !untrained;
      notice.textContent = "Untrained weights: this map means nothing yet.";
      showStrips(view);
      map.update({
        rows: data.rows,
        cols: data.cols,
        values: shown,
        allowed: data.allowed || null,
        truth: data.truth || null,
        selected,
        padding: data.padding || null,
        sums: !view.sieve.floor,
        name: `${what}, layer ${layer + 1}, head ${head + 1}`,
      });
      facts.update({ ...view, row, key });
      showSieve(view.sieve);
    };
    return { update };
  };

  /* ---- the board ---- */

  const listeners = new Set();
  hfAttn.lens = {
    now: null,
    pick: () => {},
    listen: (host, hear) => {
      listeners.add({ host, hear });
      if (hfAttn.lens.now) hear(hfAttn.lens.now);
    },
  };
  const tellOthers = view => {
    hfAttn.lens.now = view;
    listeners.forEach(one => {
      if (one.host.isConnected) one.hear(view);
      else listeners.delete(one);
    });
  };

  const opened = kinds =>
    Object.fromEntries(
      Object.entries(kinds || {})
        .filter(([, k]) => k)
        .map(([name, k]) => [name, { ...k, maps: unpack(k.maps, k.shape) }])
        .filter(([, k]) => k.maps),
    );

  hfAttn.explore_board = (element, trigger) => {
    const root = element.querySelector(".hf-explore");
    const bar = el("div", "hf-kinds");
    const main = el("div", "hf-explore-main");
    const state = {
      kinds: {},
      kind: null,
      layer: 0,
      head: 0,
      row: 0,
      key: null,
      floor: 0,
      sink: false,
      title: "",
      untrained: false,
      silent: false, // a model without attention
      turn: null, // number of the input
      picked: false, // something was, since the input was shown
    };
    const data = () => state.kinds[state.kind] || null;
    const settle = () => {
      // keep the choice inside the maps there are
      const d = data();
      if (!d) return;
      state.layer = clamp(state.layer, 0, d.maps.length - 1);
      state.head = clamp(state.head, 0, d.maps[0].length - 1);
      state.row = clamp(state.row, 0, d.rows.length - 1);
      if (state.key !== null && state.key >= d.cols.length) state.key = null;
    };
    const pick = patch => {
      Object.assign(state, patch, { picked: true });
      settle();
      show();
      clearTimeout(telling); // an arrow key held down is one choice
      telling = setTimeout(tell, 200);
    };
    let telling = null;
    const tell = () => {
      const { kind, layer, head, row, key } = state;
      trigger("pick", { kind, layer, head, query: key === null ? null : row, key });
    };
    const board = {
      pick,
      sieve: patch => {
        Object.assign(state, patch);
        show();
      },
      kind: () => state.kind,
      layer: () => state.layer,
      head: () => state.head,
    };
    const kinds = hfAttn.segment("Which maps", i => pick({ kind: Object.keys(state.kinds)[i] }));
    bar.append(el("span", "hf-label", "Maps"), kinds.element);
    root.append(bar, main);
    const panels = [gridPanel(main, pick), mapPanel(main, board)];

    const look = () => {
      const d = data();
      const { floor, sink, row, key } = state;
      const sieve = { floor, sink };
      if (!d) return { ...state, data: null, sieve };
      const map = d.maps[state.layer][state.head];
      return {
        ...state,
        data: d,
        map,
        shown: sink || floor ? sieved(map, sieve) : map,
        selected: key === null ? null : { r: row, c: key },
        sieve,
      };
    };
    const show = () => {
      const names = Object.keys(state.kinds);
      const view = look();
      bar.hidden = names.length < 2;
      kinds.update(names, names.indexOf(state.kind));
      panels.forEach(panel => panel.update(view));
      hfAttn.lens.pick = pick;
      tellOthers(view);
    };
    const update = value => {
      state.kinds = opened(value?.kinds);
      const first = Object.keys(state.kinds)[0] || null;
      const title = value?.title || "";
      // the same input, answered once more: what was picked meanwhile stays
      if (!(state.picked && title === state.title && state.kinds[state.kind])) {
        Object.assign(state, {
          kind: state.kinds[value?.kind] ? value.kind : first,
          layer: value?.layer ?? 0,
          head: value?.head ?? 0,
          row: value?.query ?? state.row,
          key: value?.key ?? state.key,
          picked: false,
        });
      }
      Object.assign(state, {
        title,
        untrained: Boolean(value?.untrained),
        silent: Boolean(value) && !first,
        turn: value?.turn ?? null,
      });
      settle();
      show();
    };
    return { update };
  };
})((window.hfAttn ||= {}));
