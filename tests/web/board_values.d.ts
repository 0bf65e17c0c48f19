/* What each board draws. Written by `make board-types` from hf_attn/viz/board_values.py and
   demos/ui/board_values.py, which say what the keys mean: change those. */
declare namespace Board {
  interface LensKind {
    from?: [number, number];
    rows: Array<string>;
    cols: Array<string>;
    shape: [number, number, number, number];
    maps?: string;
    allowed?: Array<Array<boolean | number>>;
    padding?: Array<boolean>;
    truth?: Array<Array<0 | 1 | 2>> | null;
    title?: string;
    layers?: Array<number>;
    heads?: Array<number>;
    small?: string;
    small_shape?: [number, number, number, number];
    whole?: Record<string, string>;
    of?: [number, number];
    ahead?: number | null;
  }

  interface LensWindow {
    size: number;
    why: string;
  }

  interface LensValue {
    kinds: Record<string, LensKind>;
    title: string;
    kind?: string | null;
    layer?: number;
    head?: number | null;
    query?: number | null;
    key?: number | null;
    untrained?: boolean;
    id?: number;
    asks?: Array<"cell">;
    window?: LensWindow;
    python?: string;
  }

  interface LensHead {
    kind: string;
    at: string;
    map: string;
  }

  interface LensHeadMessage {
    id: number;
    add: LensHead;
  }

  interface LensCell {
    kind: string;
    layer: number;
    head: number;
    query: number;
    key: number;
    python?: string;
    why?: string;
    q?: Array<number>;
    k?: Array<number>;
    v?: Array<number>;
    score?: number;
    scaled?: number;
    bias?: number | null;
    weight?: number;
    keys?: number;
  }

  interface LensCellMessage {
    id: number;
    cell: LensCell;
  }

  interface KeyLine {
    score: number;
    scaled: number;
    bias: number;
    may_attend: boolean;
    exp: number;
    weight: number;
    value: Array<number>;
    contribution: Array<number>;
  }

  interface ExplainedCell {
    python: string;
    row: number;
    column: number;
    query: Array<number>;
    key: Array<number>;
    products: Array<number>;
    product_digits: number;
    lines: Array<KeyLine>;
    shift: number;
    exp_sum: number;
    output: Array<number>;
  }

  interface LargestDifference {
    largest: number;
    where: string;
  }

  interface PrintedFigure {
    printed: string;
    computed: string;
    verdict: "reproduced" | "corrected";
    station: "query" | "key" | "scores" | "scaled" | "weights" | "outputs" | null;
    row: number | null;
    column: number | null;
    head: number | null;
  }

  interface PrintedClaim {
    claim: string;
    why: string;
    figures: Array<PrintedFigure>;
  }

  interface OtherSentence {
    sentence: string;
    word: string;
    row: number;
    output: Array<number>;
    apart: number;
  }

  interface AttentionValue {
    id: number;
    title: string;
    notice: string;
    rows: Array<string>;
    cols: Array<string>;
    weights: Array<Array<number>>;
    allowed: Array<Array<boolean>> | null;
    padding: Array<boolean>;
    truth: Array<Array<0 | 1 | 2>> | null;
    head: number;
    width: number;
    scale: boolean;
    has_bias: boolean;
    score_digits: number;
    cell: ExplainedCell;
    same: LargestDifference;
    printed: Array<PrintedClaim>;
    beside: OtherSentence | null;
  }

  interface AttentionCell {
    id: number;
    cell: ExplainedCell;
  }

  interface HandFigure {
    printed: string;
    computed: number;
  }

  interface HandCheck {
    is_right: boolean | null;
    hint: string;
  }

  interface HandChecks {
    scores: Array<Array<HandCheck>>;
    weights: Array<Array<HandCheck>>;
    outputs: Array<Array<HandCheck>>;
  }

  interface HandValue {
    names: Array<string>;
    query: Array<Array<number>>;
    key: Array<Array<number>>;
    value: Array<Array<number>>;
    printed: Array<HandFigure>;
    checks: HandChecks | null;
    python: string;
  }

  interface RoleStep {
    title: string;
    equation: string;
    weights: Array<Array<number>>;
    scores: Array<Array<number>>;
    asymmetry: number;
  }

  interface RolesValue {
    words: Array<string>;
    steps: Array<RoleStep>;
    python: string;
  }

  interface BaselineLevel {
    name: string;
    parameters: number;
    seconds: number;
    held_out: number;
    interval: [number, number];
  }

  interface ExampleAnswer {
    source: string;
    written?: Array<string>;
    wrong?: Array<boolean>;
    label?: string;
    text?: string;
    right: boolean | null;
    answer?: string;
  }

  interface TrainPoint {
    step: number;
    loss: number | null;
    seconds: number;
    tokens_per_second: number;
    held_out: number | null;
  }

  interface TrainFrame {
    step: number;
    maps?: Array<string>;
    predictions?: Array<ExampleAnswer>;
  }

  interface TrainMeta {
    task: string;
    probe: string;
    own_probe: boolean;
    metric: string;
    total_steps: number;
    predictions_name: string;
    predictions_title: string;
    predictions_columns: [string, string];
    baseline: BaselineLevel | null;
    heads?: number;
    layers?: Array<number>;
    rows?: Array<string>;
    cols?: Array<string>;
    truth?: Array<Array<0 | 1 | 2>> | null;
    allowed?: Array<Array<boolean>> | null;
    map?: string;
    map_title?: string;
    layer?: string;
  }

  interface TrainValue {
    run: string;
    status: "running" | "paused" | "stopped" | "finished" | "error";
    message: string;
    eta_seconds: number | null;
    meta: TrainMeta;
    points: Array<TrainPoint>;
    frames: Array<TrainFrame>;
    film_every: number;
    name?: string;
    python?: string;
  }

  interface RunRow {
    id: string;
    name: string;
    model: string;
    details: string;
    held_out: number | null;
    curve: Array<[number, number | null]>;
    loss: Array<[number, number | null]>;
    settings: Array<[string, string]>;
    results: Array<[string, string]>;
  }

  interface RefusedName {
    run: string;
    name: string;
    why: string;
  }

  interface RunsValue {
    runs: Array<RunRow>;
    current: string | null;
    refused?: RefusedName;
  }

  interface CompareValue {
    runs: Array<TrainValue>;
    python: string;
  }

  interface WrittenSymbol {
    token: string;
    probability: number;
  }

  interface ParseNode {
    label: string;
    sign: string | null;
    children: Array<ParseNode>;
    wrong: boolean;
    expected: string;
  }

  interface Passage {
    prompt: string;
    text: string;
  }

  interface AnswerMap {
    kind: "cross" | "alignment" | "decoder" | "encoder" | null;
    title?: string;
    maps?: string;
    shape?: [number, number, number, number];
    rows?: Array<string>;
    cols?: Array<string>;
    truth?: Array<Array<0 | 1 | 2>> | null;
    allowed?: Array<Array<boolean>> | null;
  }

  interface Answer {
    written: Array<WrittenSymbol>;
    wrong: Array<boolean>;
    steps: Array<number>;
    correct: boolean | null;
    log_probability: number;
    per_token: number;
    map: AnswerMap;
    check?: string;
    answer?: string | null;
    text?: string;
    tree?: ParseNode | null;
    passage?: Passage;
  }

  interface Distribution {
    names: Array<string>;
    log_p: Array<number | null>;
    more?: number;
    weights?: Array<number>;
  }

  interface BeamNode {
    token: string;
    parent: number;
    p: number;
    score: number;
    fate: "kept" | "dropped" | "ended";
    step: number;
    map: number | null;
  }

  interface Beams {
    nodes: Array<BeamNode>;
    ends: Array<number>;
    maps: Array<AnswerMap | null>;
  }

  interface RemovedWord {
    word: string;
    drop: number;
    left: number;
    turns: string | null;
  }

  interface WordRemoval {
    class: string;
    before: number;
    words: Array<RemovedWord>;
  }

  interface AnswerSettings {
    strategy: string;
    temperature: number;
    seed?: number;
    num_beams?: number;
    top_k?: number;
    top_p?: number;
    min_p?: number;
  }

  interface TryValue {
    written: Array<WrittenSymbol>;
    wrong: Array<boolean>;
    steps: Array<number>;
    correct: boolean | null;
    log_probability: number;
    per_token: number;
    map: AnswerMap;
    check?: string;
    answer?: string | null;
    text?: string;
    tree?: ParseNode | null;
    passage?: Passage;
    distributions: Array<Distribution>;
    source: string;
    chosen: string;
    python: string;
    others?: Array<Answer>;
    seeds?: Array<number>;
    how?: AnswerSettings;
    beams?: Beams;
    removal?: WordRemoval;
  }

  interface AblationAnswer {
    symbols: Array<string>;
    changed: Array<boolean>;
    correct: boolean | null;
  }

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
  }

  interface AblationChange {
    what: string;
    option: string;
    is_shorter: boolean;
    before: AblationAnswer;
    after: AblationAnswer;
    moved: Array<[string, number | null, number | null]>;
    differ: number;
    held_out: HeldOutChange;
    python: string;
  }

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

  interface EachHead {
    status: "running" | "stopped" | "finished";
    done: number;
    of: number;
    rows: Array<RemovedHead>;
    examples?: number;
    whole?: number;
    python?: string;
  }

  interface MeasuredHeads {
    why?: string;
    roles?: Array<[string, string, string, string]>;
    views?: Array<[string, string, string, string]>;
    trained?: Record<string, Record<string, Array<Array<number | null>>>>;
    even?: Record<string, Record<string, number | null>>;
    spectrum?: Record<string, Array<Array<Array<number>>>>;
    offsets?: Record<string, Array<number>>;
    profile?: Record<string, Array<Array<Array<number | null>>>>;
    python?: string;
    theory?: string;
  }

  interface ComparedRoles {
    status?: "running";
    why?: string;
    examples?: number;
    trained?: Record<string, Record<string, Array<Array<number | null>>>>;
    untrained?: Record<string, Record<string, Array<Array<number | null>>>>;
    even?: Record<string, Record<string, number | null>>;
    python?: string;
  }

  interface HeadEnergy {
    before?: number | null;
    after?: number | null;
    why?: string;
  }

  interface ChecksValue {
    id: number;
    source: Array<string>;
    heads: Record<string, Array<number>>;
    is_own: boolean;
    no_answer: string;
    can_count: boolean;
    error: string;
    answer: AblationChange | null;
    each: EachHead | null;
    measured: MeasuredHeads | null;
    compared: ComparedRoles | null;
    energies: Record<string, HeadEnergy>;
    python: string;
  }

  interface DuelBudget {
    steps: number | null;
    seconds: number | null;
  }

  interface DuelPoint {
    step: number;
    seconds: number;
    held_out: number;
    loss: number | null;
  }

  interface SizeScore {
    from: number;
    to: number;
    examples: number;
    held_out: number;
    low: number;
    high: number;
  }

  interface DuelMap {
    maps: string;
    step: number;
    source: number;
    heads: number;
    rows: Array<string>;
    cols: Array<string>;
    truth: Array<Array<0 | 1 | 2>> | null;
    layer: string;
  }

  interface Contestant {
    id: string;
    name: string;
    model: string;
    parameters: number;
    status: "running" | "paused" | "stopped" | "finished" | "error";
    message: string;
    step: number;
    steps: number;
    seconds: number;
    spent: number;
    held_out: number | null;
    loss: number | null;
    interval: [number, number] | null;
    examples: number;
    kept: boolean;
    points: Array<DuelPoint>;
    sizes: Array<SizeScore>;
    map: DuelMap | null;
    written: ExampleAnswer | null;
  }

  interface DuelValue {
    duel: number;
    status: "running" | "paused" | "stopped" | "finished" | "error";
    message: string;
    done: number;
    measured: boolean;
    task: string;
    metric: string;
    size_name: string;
    budget: DuelBudget;
    probe: string;
    answer: string;
    baseline: BaselineLevel | null;
    contestants: Array<Contestant>;
    python: string;
  }

  interface PositionPicture {
    name: string;
    kind: "vectors" | "angles" | "bias";
    values: Array<Array<number>>;
    rows: Array<number>;
    similarity: Array<Array<number>>;
    waves: Array<Array<number>>;
    points: Array<number>;
  }

  interface PositionOrder {
    words: Array<string>;
    rounding: number;
    order: Array<number>;
    without: number;
    with_positions: number;
    shift: number;
    shifted: number;
    norm: number;
  }

  interface PositionsValue {
    type: string;
    title: string;
    sentence: string;
    equation: string;
    paper: string;
    untrained: boolean;
    pictures: Array<PositionPicture>;
    order: PositionOrder;
    python: string;
  }

  interface LengthScore {
    size: number;
    right: number | null;
    low: number | null;
    high: number | null;
  }

  interface TestedEncoding {
    type: string;
    title: string;
    step: number | null;
    steps: number | null;
    loss: number | null;
    inside: number | null;
    beyond: number | null;
    refuses: boolean;
    scores: Array<LengthScore>;
  }

  interface GrowthValue {
    run: number;
    status: "running" | "paused" | "stopped" | "finished" | "error";
    message: string;
    done: number;
    task: string;
    metric: string;
    size_name: string;
    how: string;
    trained: number;
    tested: Array<number>;
    encodings: Array<TestedEncoding>;
    python: string;
  }

  interface TokenKind {
    ids: Array<number>;
    size: number;
    vocabulary: Record<string, string>;
    rows: Record<string, Array<number>>;
    difference: number;
  }

  interface MergeStep {
    merge: [string, string] | null;
    made: number;
    count: number;
    ids: Array<number>;
    size: number;
    pairs: Array<[string, string, number]>;
  }

  interface TokenKinds {
    characters: TokenKind;
    words: TokenKind;
    bytes: TokenKind;
    bpe: TokenKind;
  }

  interface TokensValue {
    text: string;
    kinds: TokenKinds;
    steps: Array<MergeStep>;
    python: string;
  }

  interface BagRow {
    word: string;
    places: [number, number] | null;
    distance: Record<string, number>;
  }

  interface BagsValue {
    bag: Record<string, number>;
    names: Array<string>;
    rows: Array<BagRow>;
    python: string;
  }

  interface OrderModel {
    name: string;
    parameters: number;
    steps: number;
    points: Array<[number, number | null]>;
    answers: Array<string>;
    right: Array<boolean>;
    is_done: boolean;
  }

  interface OrderValue {
    status: "running" | "paused" | "stopped" | "finished" | "error";
    message: string;
    examples: number;
    twins: [string, string];
    models: Array<OrderModel>;
    python: string;
  }

  interface WordCounts {
    training: number;
    held_out: number;
    vocabulary: number;
  }

  interface NgramTable {
    name: string;
    context: number;
    perplexity: number;
    discount: number;
    cells: number;
    met: number;
  }

  interface Following {
    name: string;
    context: Array<string>;
    seen: number | null;
    words: Array<[string, number, number | null]>;
  }

  interface TableGrowth {
    cells: Array<[number, number]>;
    attention: number;
    window: number;
  }

  interface NgramsValue {
    prompt: string;
    counts: WordCounts;
    tables: Array<NgramTable>;
    following: Array<Following>;
    model: Following | null;
    growth: TableGrowth;
    python: string;
  }

  interface NearWord {
    word: string;
    cosine: number;
    rank: number;
  }

  interface SumWord {
    word: string;
    cosine: number;
    rank: number;
    is_right: boolean;
  }

  interface Neighbours {
    word: string;
    found: Array<NearWord>;
  }

  interface Analogy {
    word: string;
    without: string;
    plus: string;
    found: Array<SumWord>;
    others: number;
    right: NearWord | null;
  }

  interface PlanePoint {
    word: string;
    x: number;
    y: number;
    asked: boolean;
  }

  interface PlaneArrow {
    from: number;
    to: number;
    asked: boolean;
  }

  interface Plane {
    points: Array<PlanePoint>;
    share: number;
    arrows: Array<PlaneArrow>;
    arrows_title: string;
  }

  interface NeighboursValue {
    status: "running" | "paused" | "stopped" | "finished" | "error";
    message: string;
    kind: string;
    words: number;
    width: number;
    step: number;
    steps: number;
    losses: Array<[number, number | null]>;
    near: Neighbours | null;
    analogy: Analogy | null;
    share: number | null;
    pairs: number;
    plane: Plane | null;
    python: string;
  }

  interface TransferStep {
    stage: string;
    message: string;
  }

  interface TransferResult {
    title: string;
    verified: boolean;
    url: string;
    facts: Array<[string, string]>;
    differences: Array<string>;
  }

  interface CodeLines {
    title: string;
    text: string;
  }

  interface ShareValue {
    status: "running" | "stopped" | "finished" | "error";
    steps: Array<TransferStep>;
    done: number;
    total: number;
    message: string;
    result?: TransferResult;
    code?: Array<CodeLines>;
  }

  interface OpenedLink {
    tab: string;
    boards: Record<string, Record<string, unknown>>;
    locked: Array<string>;
    hidden?: boolean;
    trains?: boolean;
    said: string;
  }

  interface LinkValue {
    turn: number;
    made?: string;
    said?: string;
    refused?: string;
    asks?: string;
    opened?: OpenedLink;
  }

  interface Values {
    attention_board: AttentionValue | AttentionCell;
    hand_board: HandValue;
    roles_board: RolesValue;
    train_board: TrainValue;
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
