/* What a board was given, for every view inside it, and where the page's numbers come from.

   keepValue(element, value)   keeps of a board's value its lines of Python, its title and its origin
   keptAt(node, name)          what is kept by that name around a node, or ""
   originAt(node)              {model, weights}: of a saved page, else of the tab's own line (notices.py) */
const kept = new WeakMap();
const NAMES = ["python", "title", "origin"];

const keepValue = (element, value) => {
  if (value === null || value === undefined) return kept.delete(element);
  const told = NAMES.filter(name => value[name] !== undefined).map(name => [name, value[name]]);
  return kept.set(element, { ...kept.get(element), ...Object.fromEntries(told) });
};
const keptAt = (node, name) => {
  while (node && kept.get(node)?.[name] === undefined) node = node.parentElement;
  return node ? kept.get(node)[name] : "";
};

/** @returns {{model?: string, weights?: string}} */
const originAt = node => {
  const told = keptAt(node, "origin");
  let tab = told ? null : node.closest("[role=tabpanel]");
  while (tab && !tab.querySelector(".hf-origin")) tab = tab.parentElement.closest("[role=tabpanel]");
  const facts = [...(tab?.querySelectorAll(".hf-origin span") || [])].map(fact => [
    fact.firstChild.textContent.trim(),
    fact.querySelector("b").textContent,
  ]);
  return told || Object.fromEntries(facts);
};

export { keepValue, keptAt, originAt };
