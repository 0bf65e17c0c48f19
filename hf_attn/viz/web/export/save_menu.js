/* One button that opens a menu: arrows move in it, Escape, Tab and a click elsewhere close it.

   saveMenu(rows)   the button with its menu; rows {name, note, act, group, shown()}: what stands in the menu, what it
   does, under which small heading, and whether it is there now */
import { button, el } from "../core/dom.js";

const EDGE = 8; // px that a menu keeps from the edge of the page

const saveMenu = rows => {
  const menu = el("div", "hf-save-menu");
  const press = button("Save", () => (menu.hidden ? open() : close()), "");
  const box = el("div", "hf-save", press, menu);
  const items = rows.map(({ name, note, act }) => {
    const choose = () => {
      close();
      press.focus();
      act();
    };
    const item = button("", choose, "");
    item.append(el("b", "", name), " ", el("span", "", note));
    item.setAttribute("role", "menuitem");
    item.tabIndex = -1;
    return item;
  });
  menu.setAttribute("role", "menu");
  menu.setAttribute("aria-label", "Save");
  menu.hidden = true;
  press.setAttribute("aria-haspopup", "menu");
  press.setAttribute("aria-expanded", "false");

  /** The items in their order; those of a group stand under its heading. */
  const groups = [...new Set(rows.map(row => row.group))].map(name => {
    const own = items.filter((_, i) => rows[i].group === name);
    if (!name) return el("div", "", ...own);
    const group = el("div", "", Object.assign(el("span", "", name), { ariaHidden: "true" }), ...own);
    group.setAttribute("aria-label", name);
    return group;
  });
  for (const group of groups) group.setAttribute("role", "group");
  menu.append(...groups);

  const there = () => items.filter(item => !item.hidden);
  const outside = event => {
    if (!box.contains(event.target)) close();
  };
  const open = () => {
    rows.forEach(({ shown }, i) => (items[i].hidden = Boolean(shown) && !shown()));
    for (const group of groups) group.hidden = !there().some(item => group.contains(item));
    menu.hidden = false;
    const { left, right } = box.getBoundingClientRect();
    menu.style.left = `${Math.max(right - menu.offsetWidth, EDGE) - left}px`;
    press.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside, true);
    addEventListener("resize", close);
    menu.scrollIntoView({ block: "nearest" });
    there()[0].focus({ preventScroll: true });
  };
  const close = () => {
    menu.hidden = true;
    press.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    removeEventListener("resize", close);
  };
  box.addEventListener("keydown", event => {
    const [all, at] = [there(), there().indexOf(document.activeElement)]; // at −1 the button itself has the focus
    const to = { ArrowDown: at + 1, ArrowUp: Math.max(at, 0) - 1, Home: 0, End: -1 }[event.key];
    if (menu.hidden) {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      return open();
    }
    if (event.key === "Tab" || event.key === "Escape") {
      press.focus(); // from there Tab goes on
      close();
    }
    if (event.key === "Escape") event.stopPropagation();
    if (to === undefined) return;
    event.preventDefault();
    all.at(to % all.length).focus();
  });
  return box;
};

export { saveMenu };
