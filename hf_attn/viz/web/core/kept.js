/* What a board was given, for every view inside it, and where the page's numbers come from.

   keepValue(element, value)   keeps of a board's value its lines of Python, its title or source, its origin
   keptAt(node, name)          what is kept by that name around a node, or ""
   inputAt(node)               what was read, and what was written: the board's title, or its source
   originAt(node)              {model, weights}: of a saved page, else of the tab's own line (notices.py) */
const kept = new WeakMap();
const NAMES = ["python", "title", "source", "origin"];

const keepValue = (element, value) => {
  if (value === null || value === undefined) return kept.delete(element);
  const told = NAMES.filter(name => value[name] !== undefined).map(name => [name, value[name]]);
  return kept.set(element, { ...kept.get(element), ...Object.fromEntries(told) });
};
const keptAt = (node, name) => {
  while (node && kept.get(node)?.[name] === undefined) node = node.parentElement;
  return node ? kept.get(node)[name] : "";
};

const inputAt = node => [keptAt(node, "title") || keptAt(node, "source")].flat().join(" ");

/** @returns {{model?: string, weights?: string}} */
const originAt = node => {
  const told = keptAt(node, "origin");
  let tab = told ? null : node.closest("[role=tabpanel]");
  const linesIn = tab => [...tab.querySelectorAll(".hf-origin")];
  while (tab && !linesIn(tab).length) tab = tab.parentElement.closest("[role=tabpanel]");
  const line = tab && linesIn(tab).find(one => one.offsetParent); // of its part, where a tab has several
  const facts = [...(line?.children || [])].map(fact => [
    fact.firstChild.textContent.trim(),
    fact.querySelector("b").textContent,
  ]);
  return told || Object.fromEntries(facts);
};

export { inputAt, keepValue, keptAt, originAt };
