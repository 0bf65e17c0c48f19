/* What the scripts find on the page that no script of ours made. */

/** What the modules export, once joined into one script (`join_scripts` in hf_attn/viz/web). */
declare const hfAttn: { strategies: Record<string, any> };
interface Window {
  hfAttn: Record<string, any>;
  hfAttnIsPast: boolean; // whether the link in the address was open already, and is no lesson
}

interface DocumentEventMap {
  "hf-overlays": CustomEvent;
  "hf-shown": CustomEvent;
}

/** What these scripts look up is HTML. */
interface ParentNode {
  querySelector<One extends HTMLElement = HTMLElement>(selectors: string): One | null;
  querySelectorAll<One extends HTMLElement = HTMLElement>(selectors: string): NodeListOf<One>;
}
interface Element {
  closest<One extends HTMLElement = HTMLElement>(selectors: string): One | null;
}
