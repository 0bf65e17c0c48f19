/* What the lens draws: the contract of its value. Maps are packed by `encode_maps` (hf_attn/viz/web); layers, heads
   and places count from 0. */
declare namespace Board {
  type Packed = string;  // weights, as `encode_maps` gives them
  type Shape = [number, number, number, number];  // layers, heads, queries, keys
  type Truth = (0 | 1 | 2)[][];  // [queries][keys]: 1 known answer, 2 carried or indirect
  /** The maps of one kind of attention; of a long input, a window of them, which begins at `from`. */
  interface LensKind {
    from?: [number, number];
    rows: string[];  // labels
    cols: string[];
    shape: Shape;
    maps?: Packed;  // [layers, heads, queries, keys]
    allowed?: (boolean | number)[][];  // false: masked
    padding?: boolean[];
    truth?: Truth | null;
    title?: string;
    layers?: number[];  // which of the model's these are, where not all are here
    heads?: number[];
    small?: Packed;  // pooled maps of every head, in place of `maps`
    small_shape?: Shape;
    whole?: Record<string, Packed>;  // "layer.head" or "layer.mean": what is sent of a long input
    of?: [number, number];  // how long both axes are
    ahead?: number | null;  // in a decoder, how many keys more than queries there are
  }

  /** The window on a long input. */
  interface LensWindow {
    size: number;  // tokens on a side
    why: string;  // not all are shown
  }

  /** Where the numbers come from. */
  interface Origin {
    model: string;
    weights: string;
  }

  /** All that the lens draws; what is shown first is chosen by kind, layer, head, query and key. */
  interface LensValue {
    kinds: Record<string, LensKind>;  // "encoder", "decoder", "cross"; empty: a model without attention
    title: string;
    kind?: string | null;
    layer?: number;
    head?: number | null;
    query?: number | null;
    key?: number | null;
    untrained?: boolean;
    id?: number;  // number of this input
    asks?: "cell"[];  // where query, key and value can be asked for
    window?: LensWindow;
    python?: string;
    origin?: Origin;  // where no line of the page says it
  }

  /** A head of a long input that was asked for. */
  interface LensHead {
    kind: string;
    at: string;  // "layer.head" or "layer.mean"
    map: Packed;
  }

  /** What comes after `fetch`. */
  interface LensHeadMessage {
    id: number;
    add: LensHead;
  }

  /** A key and its score, scaled, with its position. */
  interface LensOther {
    key: number;
    scaled: number;
  }

  /** The numbers behind a cell, or why there are none. */
  interface LensCell {
    kind: string;
    layer: number;
    head: number;
    query: number;
    key: number;
    python?: string;
    why?: string;
    q?: number[];
    k?: number[];
    v?: number[];
    score?: number;
    scaled?: number;
    bias?: number | null;
    other?: LensOther | null;  // the highest score of the other keys that the query may read
    weight?: number;
    keys?: number;  // how many the query may read
  }

  /** What comes after `look_inside`. */
  interface LensCellMessage {
    id: number;
    cell: LensCell;
  }
}
