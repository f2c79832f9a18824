// Elements without markup in strings: text is always text.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: attributes ("onclick" and the like are listeners, `true` is an empty one), then children. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** As `h`, in SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Set a text only where it differs: what did not change is not laid out anew, nor read out. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Make a parent's children those of `rows`, by key: known ones are kept (and with them the focus), and made anew
 * only when `same` says that they differ.
 */
export function keyed(parent, rows, keyOf, make, same = Object.is) {
  const known = new Map();
  for (const child of parent.children) known.set(child.dataset.key, child);
  let place = parent.firstElementChild;
  for (const row of rows) {
    const key = String(keyOf(row));
    let child = known.get(key);
    known.delete(key);
    if (!child || !same(child.row, row)) {
      const made = make(row);
      made.dataset.key = key;
      made.row = row;
      if (child) {
        const focused = child.contains(document.activeElement);
        if (child === place) place = made;
        child.replaceWith(made);
        if (focused) (made.querySelector("button") ?? made).focus?.();
      }
      child = made;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of known.values()) child.remove();
}
