"use strict";
/* What is wrong with the page as it stands: for tests/browser/test_walk.py, beside axe. */

/* what axe finds serious, once colours have come to where they were going */
window.findFaults = async () => {
  const passing = document.getAnimations().filter(each => each.effect.getTiming().iterations !== Infinity);
  await Promise.allSettled(passing.map(each => each.finished));
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter(v => ["serious", "critical"].includes(v.impact))
    .flatMap(v =>
      v.nodes.slice(0, 5).map(n => {
        const why = [...n.any, ...n.all, ...n.none].map(check => check.message);
        return `${v.id}: ${n.target.join(" ")}: ${why.join("; ")}`;
      }),
    );
};

/* texts whose boxes meet although neither holds the other; what is scrolled or clipped away counts as cut */
window.findOverlaps = () => {
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const clipped = (element, box) => {
    for (let e = element; e && e !== document.body; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.clipPath !== "none" && e.offsetWidth <= 1) return null;
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      const edge = e.getBoundingClientRect();
      box = {
        left: Math.max(box.left, edge.left), right: Math.min(box.right, edge.right),
        top: Math.max(box.top, edge.top), bottom: Math.min(box.bottom, edge.bottom),
      };
      if (box.right - box.left < 2 || box.bottom - box.top < 2) return null;
    }
    return box;
  };
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.textContent.trim() || element.closest("script, style, noscript")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      if (rect.width < 2 || rect.height < 2) continue;
      const box = clipped(element, rect);
      if (!box) continue;
      const { left, right, top, bottom } = box;
      boxes.push({ left, right, top, bottom, node, element });
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  const found = [];
  boxes.forEach((a, i) => {
    for (let j = i + 1; j < boxes.length && boxes[j].top < a.bottom; j++) {
      const b = boxes[j];
      if (a.node === b.node || a.element.closest("svg") !== b.element.closest("svg")) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      const line = Math.min(a.bottom - a.top, b.bottom - b.top);
      const texts = [a, b].map(each => each.node.textContent.trim());
      if (wide > 2 && high > 0.4 * line) found.push(texts.join(" | ").slice(0, 160));
    }
  });
  return [...new Set(found)].slice(0, 10);
};

/* what the keyboard comes to without that one sees where it is; call it with the keyboard in use */
window.findUnseenFocus = () => {
  const MARKS = ["boxShadow", "borderColor", "backgroundColor", "color"];
  const look = element => {
    const marks = [];
    for (let e = element, i = 0; e && i < 4; e = e.parentElement, i++) {
      const style = getComputedStyle(e);
      marks.push(style.outlineStyle === "none" ? "" : style.outline, ...MARKS.map(name => style[name]));
    }
    return marks.join();
  };
  const still = document.createElement("style"); // else a colour is on its way when it is read
  still.textContent = "*, ::before, ::after { transition: none !important; }";
  document.head.append(still);
  const stops = [...document.querySelectorAll("a[href], button, input, select, textarea, [tabindex]")];
  const unseen = stops.filter(stop => {
    if (stop.tabIndex < 0 || stop.disabled || !stop.checkVisibility({ visibilityProperty: true })) return false;
    document.activeElement.blur();
    const before = look(stop);
    stop.focus({ preventScroll: true });
    return document.activeElement === stop && look(stop) === before;
  });
  document.activeElement.blur();
  still.remove();
  return unseen.map(stop => `no focus is seen: ${stop.outerHTML.slice(0, 120)}`);
};
