/* What the app's boards draw: the contract of each board's value, the one place where it stands. tsc holds the scripts
   to it (make lint-web), and tests/support/board_values.py whatever a test sends to a board, so a type here is made of
   `interface`, `type`, |, [], Record, tuples and literals alone. The lens's own value is in
   hf_attn/viz/web/board_values.d.ts.

   A board takes its value or null, where there is nothing to show yet; NaN and infinity come as null. Layers, heads and
   places count from 0. `python` holds the lines of Python that give the same. */
declare namespace Board {
  type Pair = [number, number | null];  // a point of a curve
  type Named = [string, string];  // a fact: its name, and what it is
  type JobStatus = "running" | "paused" | "stopped" | "finished" | "error";
  type Heads = Record<string, Record<string, (number | null)[][]>>;  // kind → measure → [layers][heads]
  type Even = Record<string, Record<string, number | null>>;  // kind → measure → of even attention

  // ---- Attention

  /** One key of the explained row, as `hf_attn.interpret.head.Line`. */
  interface KeyLine {
    score: number;
    scaled: number;
    bias: number;
    may_attend: boolean;
    exp: number;
    weight: number;
    value: number[];
    contribution: number[];
  }

  /** The arithmetic of one cell, as `hf_attn.interpret.head.Explanation`. */
  interface ExplainedCell {
    python: string;
    row: number;
    column: number;
    query: number[];
    key: number[];
    products: number[];
    product_digits: number;
    lines: KeyLine[];
    shift: number;
    exp_sum: number;
    output: number[];
  }

  /** How far the arithmetic is from PyTorch's. */
  interface LargestDifference {
    largest: number;
    where: string;
  }

  /** A figure of a text beside the computed one; its place is null where it stands beside the arithmetic. */
  interface PrintedFigure {
    printed: string;
    computed: string;
    verdict: "reproduced" | "corrected";
    station: "query" | "key" | "scores" | "scaled" | "weights" | "outputs" | null;
    row: number | null;
    column: number | null;
    head: number | null;
  }

  /** A sentence of a text with its figures. */
  interface PrintedClaim {
    claim: string;
    why: string;
    figures: PrintedFigure[];
  }

  /** The same word in the other sentence. */
  interface OtherSentence {
    sentence: string;
    word: string;
    row: number;
    output: number[];
    apart: number;
  }

  /** The likeliest tokens or classes: [name, p] of each row of the map, or one for all rows. */
  interface Likeliest {
    title: string;
    of: number;  // how many there are in all
    rows: [string, number][][];
    without?: WithoutWord;
  }

  /** A word taken away from a sentence. */
  interface WithoutWord {
    word: string;
    place: number;
    rows: ([string, number, number][] | null)[];  // [name, p whole, p without it]; null at its own place
  }

  /** What a model makes of an input: the tree that it writes, what it holds for likeliest, or its answer in a line. */
  interface Result {
    tree: ParseNode | null;
    likeliest: Likeliest | null;
    line: string;
  }

  /** The map of one head, one cell's arithmetic, and the figures of its text. Event `pick`: a PickEvent. */
  interface AttentionValue {
    id: number;  // of this map
    title: string;
    notice: string;  // what is to be known of the map before it is read
    rows: string[];
    cols: string[];
    weights: number[][];
    allowed: boolean[][] | null;
    padding: boolean[];
    truth: Truth | null;
    head: number;
    width: number;  // of a key
    scale: boolean;
    has_bias: boolean;
    score_digits: number;
    cell: ExplainedCell;
    same: LargestDifference;
    printed: PrintedClaim[];
    beside: OtherSentence | null;
    place: string;  // the head in its model, in words
    writes: boolean;  // the rows are what is written, one after the other
    result: Result | null;
  }

  /** Another cell of the map that has this id. */
  interface AttentionCell {
    id: number;
    cell: ExplainedCell;
  }

  /** A figure that the chapter prints in the third row. */
  interface HandFigure {
    printed: string;
    computed: number;
  }

  /** What was said of a typed figure; null where nothing is written. */
  interface HandCheck {
    is_right: boolean | null;
    hint: string;
  }

  /** [row][column] of each part of the exercise. */
  interface HandChecks {
    scores: HandCheck[][];
    weights: HandCheck[][];
    outputs: HandCheck[][];
  }

  /** The exercise by hand. Event `check`: a CheckEvent. */
  interface HandValue {
    names: string[];
    query: number[][];
    key: number[][];
    value: number[][];
    printed: HandFigure[];
    checks: HandChecks | null;
    python: string;
  }

  /** One step from a single vector to query, key and value. */
  interface RoleStep {
    title: string;
    equation: string;
    weights: number[][];
    scores: number[][];
    asymmetry: number;  // largest |s_ij − s_ji|
  }

  /** The three steps on the same words. */
  interface RolesValue {
    words: string[];
    steps: RoleStep[];
    python: string;
  }

  // ---- Train

  /** A baseline, drawn as a level over the whole run. */
  interface BaselineLevel {
    name: string;
    parameters: number;
    seconds: number;
    held_out: number;
    interval: [number, number];
  }

  /** An answered example: symbols, one by one; or a class; or running text. */
  interface ExampleAnswer {
    source: string;
    written?: string[];
    wrong?: boolean[];  // beside `written`
    label?: string;
    text?: string;
    right: boolean | null;
    answer?: string;
    symbols?: number;  // of the right answer
  }

  /** What was measured once, at the end, with its 95 % interval. */
  interface HeldOutScore {
    share: number;
    interval: [number, number];
    examples: number;
  }

  /** A report of the loop; `validation` is the share of validation examples that are right. */
  interface TrainPoint {
    step: number;
    loss: number | null;
    seconds: number;
    tokens_per_second: number;
    validation: number | null;
    beyond?: number | null;  // the share of longer inputs that are right, where they are watched
  }

  /** The probe's maps at a step; predictions only where they changed. */
  interface TrainFrame {
    step: number;
    maps?: Packed[];  // a layer each: [heads, rows, cols]
    predictions?: ExampleAnswer[];
  }

  /** The largest size that is learned, and the longer one that is watched. */
  interface Beyond {
    learned: number;
    watched: number;
    unit: string;  // "digits", "symbols"
  }

  /** How many inputs of a size are right. */
  interface Reached {
    size: number;
    right: number;
    examples: number;
  }

  /** What every message of a run repeats; the map's part comes once there is a model. */
  interface TrainMeta {
    task: string;
    probe: string;  // the example whose attention is drawn
    own_probe: boolean;  // the visitor wrote it
    metric: string;
    purpose: string;  // behind "This model should"
    kind_of_task: string;
    needed: NeededPart | null;  // once it was measured
    beyond: Beyond | null;  // of a task that has longer inputs than are learned
    reach: Reached[] | null;  // how many of those are right, once measured
    total_steps: number;
    predictions_name: string;
    predictions_title: string;
    predictions_columns: [string, string];
    baseline: BaselineLevel | null;
    heads?: number;  // 0: no attention
    layers?: number[];  // their numbers, from 1
    rows?: string[];
    cols?: string[];
    truth?: Truth | null;
    allowed?: boolean[][] | null;
    kind?: string;  // of the map: "cross", "decoder", "encoder"; empty without attention
    map?: string;  // what it is called
    layer?: string;  // which one a duel shows, in words; empty where there is one
  }

  /** The head or layer that the answers need most, with what is left without it. */
  interface NeededPart {
    layer: number;  // from 1
    head: number;  // from 1; 0 for the whole layer
    whole: number;  // share of unseen inputs answered right by the whole model
    left: number;  // … without it
    interval: [number, number];  // of `left`, 95 %
    examples: number;
    predictions: ExampleAnswer[] | null;  // without it, of examples that are wrong then
  }

  /** A task that is offered on a card. */
  interface TaskCard {
    task: string;  // its label in the list of all
    title: string;
    example: string;
    map: Truth;  // what each symbol of the answer is known to need
  }

  interface CardsValue {
    cards: TaskCard[];
    chosen: string;
  }

  /** A message of a run, which the board merges with those before by step; a new `run` starts afresh. Messages
     may be lost or merged by the browser: each repeats recent points and frames, the last has all that is kept,
     and a null never hides what was measured before. A `gr.Button(elem_classes="train")` of the page shows the
     progress. */
  interface TrainValue {
    run: string;
    status: JobStatus | "ready";  // ready: no run, the untrained model of the settings
    message: string;  // what failed and what to do, where status is "error"
    eta_seconds: number | null;
    meta: TrainMeta;
    points: TrainPoint[];
    frames: TrainFrame[];
    held_out: HeldOutScore | null;  // once the run has ended
    film_every: number;  // steps between two frames that stay; another stays until a newer comes
    name?: string;  // of a run that is compared
    python?: string;
  }

  /** A row of the table of runs. */
  interface RunRow {
    id: string;
    name: string;
    model: string;
    details: string;  // "928 k, 1 240 steps, 0:31"
    validation: number | null;
    held_out: HeldOutScore | null;
    curve: Pair[];  // validation accuracy by step
    loss: Pair[];
    settings: Named[];
    results: Named[];
  }

  /** A name that will not do. */
  interface RefusedName {
    run: string;
    name: string;
    why: string;
  }

  /** The table of runs; a click on a row lays its curves over the train board's and compares it. Events, each
     with `event.run`: `open_run`, `download_run`, `share_run`, `rename_run` with `event.name`, and `delete_run`,
     sent ten seconds after the click, unless undone; `compare_runs` with `event.runs`, the ids of those laid
     over the curves. */
  interface RunsValue {
    runs: RunRow[];
    current: string | null;
    refused?: RefusedName;
  }

  /** The whole messages of the runs that are laid over; nothing is seen while there are none. */
  interface CompareValue {
    runs: TrainValue[];
    python: string;
  }

  // ---- Try

  /** A symbol with the probability that the model gave it. */
  interface WrittenSymbol {
    token: string;
    probability: number;
  }

  /** A node of a parse tree, with the right label wherever another stands. */
  interface ParseNode {
    label: string;
    sign: string | null;
    children: ParseNode[];
    wrong: boolean;
    expected: string;
  }

  /** What a language model wrote behind a prompt. */
  interface Passage {
    prompt: string;
    text: string;
  }

  /** Who reads what while the answer is written; kind null: no attention. */
  interface AnswerMap {
    kind: "cross" | "alignment" | "decoder" | "encoder" | null;
    title?: string;
    maps?: Packed;
    shape?: Shape;
    rows?: string[];
    cols?: string[];
    from?: [number, number]; // where a window of a long map begins
    truth?: Truth | null;
    allowed?: boolean[][] | null;
  }

  /** One answer: `wrong` and `steps` (places in distributions) stand beside `written`. */
  interface Answer {
    written: WrittenSymbol[];
    wrong: boolean[];
    steps: number[];
    correct: boolean | null;
    log_probability: number;
    per_token: number;
    map: AnswerMap;
    check?: string;  // "the same tree as Python's ast"
    answer?: string | null;  // the right one
    text?: string;
    tree?: ParseNode | null;
    passage?: Passage;
  }

  /** What a step chose from, from the largest; `more` symbols are not named. */
  interface Distribution {
    names: string[];
    log_p: (number | null)[];
    more?: number;
    weights?: number[];  // what those weigh together at each temperature of the slider
  }

  /** A symbol of the beam tree; nodes count from 1, 0 is the beginning. */
  interface BeamNode {
    token: string;
    parent: number;
    p: number;
    score: number;
    fate: "kept" | "dropped" | "ended";
    step: number;  // place in distributions
    map: number | null;  // among the maps of the answers, and then `maps`
  }

  /** The tree of all beams, parents first; `ends` are the answers' last nodes. */
  interface Beams {
    nodes: BeamNode[];
    ends: number[];
    maps: (AnswerMap | null)[];
  }

  /** What the removal of a word takes from the class's probability, and what is left. */
  interface RemovedWord {
    word: string;
    drop: number;
    left: number;
    turns: string | null;  // the class that the text then has, where that is another
  }

  interface WordRemoval {
    class: string;
    before: number;
    words: RemovedWord[];
  }

  /** How the answer was written; beside the temperature, what the strategy uses. */
  interface AnswerSettings {
    strategy: string;
    temperature: number;
    seed?: number;
    num_beams?: number;
    top_k?: number;
    top_p?: number;
    min_p?: number;
  }

  /** The best answer, with what all were chosen from. Event `rewrite`: write anew, as the sliders are. */
  interface TryValue extends Answer {
    distributions: Distribution[];
    source: string;  // the same source and checkpoint again keep the chosen step
    chosen: string;
    split: string;  // of the input, in words
    order?: string;  // in which the symbols are written, where it is not the reader's
    python: string;
    others?: Answer[];  // other beams or draws
    seeds?: number[];  // of all draws
    how?: AnswerSettings;
    beams?: Beams;
    removal?: WordRemoval;
  }

  // ---- Explore

  /** An answer's symbols; `changed` stands beside them. */
  interface AblationAnswer {
    symbols: string[];
    changed: boolean[];
    correct: boolean | null;
  }

  /** Held-out accuracy with and without; only `status` while it is measured, `why` where it cannot be. */
  interface HeldOutChange {
    status?: "running";
    why?: string;
    examples?: number;
    whole?: number;
    left?: number;
    low?: number;
    high?: number;
    drop?: number;
    error?: number;
    kinds?: Record<string, DecidedKind> | null;  // of a text's decided words
  }

  /** [share, low, high] of the words of one kind that are right. */
  interface DecidedKind {
    examples: number;
    whole: [number, number, number];
    left: [number, number, number];
    known: [number, number, number];  // where none may read the words that decide
    control: [number, number, number];  // … nor the words before these
  }

  /** A word that earlier ones decide. */
  interface DecidedWord {
    kind: string;
    right: string[];
  }

  /** What a language model expects. */
  interface Predictions {
    what: "next" | "masked" | "written";  // the token behind each place, at each, or each of the target
    labels: string[];
    vocabulary: number;
    places: [string, number][][];  // of each: the likeliest tokens and their p
    other: string;  // a text in which another word is decided; else the same
    python: string;
    decided: Record<string, DecidedWord>;  // place → what is known of the word behind it
  }

  /** The answer to a question: before and after, and held-out. */
  interface AblationChange {
    what: string;
    asked: [string, string, string, number, number];  // what, how, kind, layer, head
    verdict: string;  // what it does to this input, and to others
    option: string;  // of `hf-attn ablate`; empty where it does not take the model
    is_shorter: boolean;  // the input
    before: AblationAnswer;
    after: AblationAnswer;
    moved: [string, number | null, number | null][];  // of `before`: symbol, total variation, divergence
    differ: number;
    held_out: HeldOutChange;
    places: ([string, number, number][] | null)[] | null;  // of a language model, at each place: token, p, p changed
    python: string;
  }

  /** Held-out accuracy without one head. */
  interface RemovedHead {
    kind: string;
    layer: number;
    head: number;
    left: number;
    low: number;
    high: number;
    drop: number;
    error: number;
  }

  /** Heads counted in the background: of which how often the model is right without each. */
  interface EachHead {
    status: "" | "waiting" | "running" | "stopped" | "finished";
    done: number;
    of: number;  // that are counted
    heads: number;  // that the model has
    rows: RemovedHead[];
    examples: number | null;
    whole: number | null;
    named: [string, number, number] | null;  // kind, layer, head: the one that the headline names
    why: string;  // none are counted; else empty
    python: string;
  }

  /** Roles and theory views of every head on the input; only `why` where it is too long. */
  interface MeasuredHeads {
    why?: string;
    roles?: [string, string, string, string][];  // name, title, definition, of even attention
    views?: [string, string, string, string][];
    trained?: Heads;
    even?: Even;
    spectrum?: Record<string, number[][][]>;  // kind → [layers][heads][singular values]
    offsets?: Record<string, number[]>;  // kind → [key − query]
    profile?: Record<string, (number | null)[][][]>;  // kind → [layers][heads][mean weights]
    python?: string;  // of the roles
    theory?: string;  // of one head's views
  }

  /** Roles on held-out examples, beside the same model untrained. */
  interface ComparedRoles {
    status?: "running";
    why?: string;
    examples?: number;
    trained?: Heads;
    untrained?: Heads;
    even?: Even;
    python?: string;
  }

  /** Mean Hopfield energy of a head's queries before and after one update, or why there is none. */
  interface HeadEnergy {
    before?: number | null;
    after?: number | null;
    why?: string;
  }

  /** What the model was asked about the lens's input. On how many held-out examples it is measured stands in the
     template: data-examples, data-role-examples. */
  /** What each layer would expect: [layer][place]. */
  interface LayersLens {
    columns: string[];
    tokens: string[][];
    p: number[][];
    python: string;
  }

  /** What each place of each layer brings back of an answer: [layer][place]. */
  interface LayersPatching {
    columns: string[];
    others: string[];  // the changed text's tokens
    answer: string;
    clean: number;
    changed: number;
    recovery: (number | null)[][];
    python: string;
  }

  interface LayersValue {
    why: string;  // what was asked cannot be done; else empty
    lens?: LayersLens;
    patching?: LayersPatching;
  }

  interface ChecksValue {
    turn: [string, number];  // of whom, and which: one behind a later of the same comes late, and is dropped
    id: number;  // number of the lens's input; a new one starts afresh
    examples: string;  // what heads are counted on, in the plural
    typed_text: string;  // what was asked
    typed_target: string;
    removes: "" | "head" | "layer";  // what is removed at once
    source: string[];  // labels of the input's tokens
    heads: Record<string, number[]>;  // kind → heads of each layer; empty: the model has no attention
    is_own: boolean;  // false: the lens shows a target that was given
    no_answer: string;  // why nothing can be asked; else empty
    predictions: Predictions | null;  // of a model that names no task, or goes on with a text
    can_count: boolean;  // whether there are held-out examples
    error: string;  // why the last question was not answered
    answer: AblationChange | null;
    each: EachHead | null;
    measured: MeasuredHeads | null;
    compared: ComparedRoles | null;
    layers: LayersValue | null;
    energies: Record<string, HeadEnergy>;  // "cross.1.0", of the heads looked at
    python: string;
  }

  // ---- Duel

  /** One of both. */
  interface DuelBudget {
    steps: number | null;
    seconds: number | null;
  }

  /** A measurement, with the mean loss since the one before. */
  interface DuelPoint {
    step: number;
    seconds: number;
    validation: number;
    loss: number | null;
  }

  /** Accuracy on sizes `from` … `to`. */
  interface SizeScore {
    from: number;
    to: number;
    examples: number;
    held_out: number;
    low: number;
    high: number;
  }

  /** The probe's newest map; of its columns the first `source` are what was read. */
  interface DuelMap {
    maps: Packed;
    step: number;
    source: number;
    heads: number;
    rows: string[];
    cols: string[];
    truth: Truth | null;
    layer: string;
  }

  /** One model of a duel. */
  interface Contestant {
    id: string;
    name: string;
    model: string;
    parameters: number;
    status: JobStatus;
    message: string;
    step: number;
    steps: number;
    seconds: number;
    spent: number;  // share of its budget
    validation: number | null;
    held_out: HeldOutScore | null;
    loss: number | null;
    kept: boolean;
    points: DuelPoint[];
    sizes: SizeScore[];
    map: DuelMap | null;
    written: ExampleAnswer | null;
  }

  /** Two to four models on one task; every message holds everything. Events `keep_run` and `download_run` with
     `event.run`. The page's button `duel-start` shows the progress. */
  interface DuelValue {
    duel: number;  // a new number starts afresh
    status: JobStatus;
    message: string;
    done: number;
    measured: boolean;  // whether the figures by size are all there
    task: string;
    metric: string;
    size_name: string;
    budget: DuelBudget;
    probe: string;
    answer: string;
    baseline: BaselineLevel | null;
    contestants: Contestant[];
    python: string;
  }

  // ---- Positions

  /** One table of an encoding, as `hf_attn.analysis.position_encodings.Picture`. */
  interface PositionPicture {
    name: string;
    kind: "vectors" | "angles" | "bias";
    values: number[][];
    rows: number[];
    similarity: number[][];
    waves: number[][];
    points: number[];
  }

  /** Whether words that were moved are noticed, as `OrderTest`; below `rounding` outputs are the same. */
  interface PositionOrder {
    words: string[];
    rounding: number;
    order: number[];
    without: number;
    with_positions: number;
    shift: number;
    shifted: number;
    norm: number;
  }

  /** One position encoding as numbers. */
  interface PositionsValue {
    type: string;
    title: string;
    sentence: string;
    equation: string;
    paper: string;
    untrained: boolean;  // whether weights of its own, as they were drawn, are in the numbers
    pictures: PositionPicture[];
    order: PositionOrder;
    python: string;
  }

  /** Accuracy at a size; null where the encoding refuses so long a sequence. */
  interface LengthScore {
    size: number;
    right: number | null;
    low: number | null;
    high: number | null;
  }

  /** An encoding that is measured beyond its length; null until it has begun. */
  interface TestedEncoding {
    type: string;
    title: string;
    step: number | null;
    steps: number | null;
    loss: number | null;
    inside: number | null;
    beyond: number | null;
    refuses: boolean;
    scores: LengthScore[];
  }

  /** Up to four encodings on one task. The page's button `positions-start` shows the progress. */
  interface GrowthValue {
    run: number;
    status: JobStatus;
    message: string;
    done: number;
    task: string;
    metric: string;
    size_name: string;
    how: string;
    trained: number;  // largest size learned
    tested: number[];
    encodings: TestedEncoding[];
    python: string;
  }

  // ---- Language

  /** A segmentation: ids, and for each that occurs its token and its row of the embedding table. */
  interface TokenKind {
    ids: number[];
    size: number;  // of the vocabulary
    vocabulary: Record<string, string>;
    rows: Record<string, number[]>;
    difference: number;  // of lookup and one-hot product
  }

  /** The text before the first merge, and after each; `made` is the merged token's id. */
  interface MergeStep {
    merge: [string, string] | null;
    made: number;
    count: number;
    ids: number[];
    size: number;
    pairs: [string, string, number][];  // left, right, count
  }

  /** The ids of bpe are those of the steps. */
  interface TokenKinds {
    characters: TokenKind;
    words: TokenKind;
    bytes: TokenKind;
    bpe: TokenKind;
  }

  /** A text cut in four ways. */
  interface TokensValue {
    text: string;  // another one starts afresh
    kinds: TokenKinds;
    steps: MergeStep[];
    python: string;
  }

  /** A word's places in both sentences, and how far its outputs are apart, as a share of the length. */
  interface BagRow {
    word: string;
    places: [number, number] | null;
    distance: Record<string, number>;
  }

  /** Two sentences of the same words. */
  interface BagsValue {
    bag: Record<string, number>;
    names: string[];  // ways of telling places
    rows: BagRow[];
    python: string;
  }

  /** A model that learns which letter comes first. */
  interface OrderModel {
    name: string;
    parameters: number;
    steps: number;
    points: Pair[];  // validation accuracy by step
    held_out: number | null;  // once it learns no more
    answers: string[];  // to the twins
    right: boolean[];
    is_done: boolean;
  }

  /** Which of two letters comes first: two sequences of the same letters, and who can tell them apart. */
  interface OrderValue {
    status: JobStatus;
    message: string;
    examples: number;
    twins: [string, string];
    models: OrderModel[];
    python: string;
  }

  /** Words that were counted and measured, and how many different ones. */
  interface WordCounts {
    training: number;
    held_out: number;
    vocabulary: number;
  }

  /** A table by number of words read. */
  interface NgramTable {
    name: string;
    context: number;
    perplexity: number;
    discount: number;
    cells: number;
    met: number;
  }

  /** What follows the words read; `seen`: how often they were met; null of a language model. */
  interface Following {
    name: string;
    context: string[];
    seen: number | null;
    words: [string, number, number | null][];  // word, probability, times
  }

  /** How many numbers a full table has, beside attention's. */
  interface TableGrowth {
    cells: [number, number][];  // words read, numbers
    attention: number;
    window: number;  // words it reads
  }

  /** Counts of a text, and what follows a prompt; `model`: the visitor's newest language model. */
  interface NgramsValue {
    prompt: string;
    counts: WordCounts;
    tables: NgramTable[];
    following: Following[];
    model: Following | null;
    growth: TableGrowth;
    python: string;
  }

  /** A neighbour. */
  interface NearWord {
    word: string;
    cosine: number;
    rank: number;
  }

  /** A neighbour of a sum. */
  interface SumWord extends NearWord {
    is_right: boolean;
  }

  /** A word's neighbours. */
  interface Neighbours {
    word: string;
    found: NearWord[];
  }

  /** word − without + plus, and the rank of the right word where it is known. */
  interface Analogy {
    word: string;
    without: string;
    plus: string;
    found: SumWord[];
    others: number;  // words that were ranked
    right: NearWord | null;
  }

  /** A word in the plane. */
  interface PlanePoint {
    word: string;
    x: number;
    y: number;
    asked: boolean;
  }

  /** From one point to another. */
  interface PlaneArrow {
    from: number;
    to: number;
    asked: boolean;
  }

  /** The plane in which the words differ most. */
  interface Plane {
    points: PlanePoint[];
    share: number;
    arrows: PlaneArrow[];
    arrows_title: string;
  }

  /** Word vectors; `share` of `pairs` sums of capitals and countries are right, null of other texts. */
  interface NeighboursValue {
    status: JobStatus;
    message: string;
    kind: string;
    words: number;
    width: number;
    step: number;
    steps: number;
    losses: Pair[];
    near: Neighbours | null;
    analogy: Analogy | null;
    share: number | null;
    pairs: number;
    plane: Plane | null;
    python: string;
  }

  // ---- Share and links

  /** What was done. */
  interface TransferStep {
    stage: string;
    message: string;
  }

  /** What came of a push or a pull. */
  interface TransferResult {
    title: string;
    verified: boolean;
    url: string;
    facts: Named[];
    differences: string[];
  }

  /** Lines to copy. */
  interface CodeLines {
    title: string;
    text: string;
  }

  /** A push or a pull; `done` of `total` bytes, 0 where nothing is counted. */
  interface ShareValue {
    status: "running" | "stopped" | "finished" | "error";
    steps: TransferStep[];  // so far, the last one now
    done: number;
    total: number;
    message: string;  // why it stopped or failed, and what to do
    result?: TransferResult;
    code?: CodeLines[];
  }

  /** What a link asks of the page. */
  interface OpenedLink {
    tab: string;
    boards: Record<string, Record<string, unknown>>;  // id → what that board chose
    locked: string[];  // ids of fields
    hidden?: boolean;  // the answers
    trains?: boolean;  // its jobs: the board sends `open_link` then
    isLost?: boolean;  // no link, but what the server held for this page: boards show what they did
    said: string;
  }

  /** The link that event `copy_<tab>` asked for, or why there is none; or one that was opened (turn 0). */
  interface LinkValue {
    turn: number;
    made?: string;  // the text for the address
    said?: string;
    refused?: string;
    asks?: string;  // whether to train for long, or to fetch a model: `accept_link` or `open_settings`
    accepts?: string;  // what the button says that accepts it
    opened?: OpenedLink;
  }

  /** The name under which a script exports a board, and what it takes; or null. */
  interface Values {
    attention_board: AttentionValue | AttentionCell;
    hand_board: HandValue;
    roles_board: RolesValue;
    train_board: TrainValue;
    task_cards: CardsValue;
    runs_table: RunsValue;
    compare_board: CompareValue;
    try_board: TryValue;
    explore_board: LensValue | LensHeadMessage | LensCellMessage;
    checks_board: ChecksValue;
    duel_board: DuelValue;
    positions_board: PositionsValue;
    growth_board: GrowthValue;
    tokens_board: TokensValue;
    bags_board: BagsValue;
    order_board: OrderValue;
    ngrams_board: NgramsValue;
    neighbours_board: NeighboursValue;
    share_board: ShareValue;
    link_board: LinkValue;
  }
}
