// The nodes as a heat map: one cell each, grouped by zone, on a canvas that is drawn in a few milliseconds.

import { CORDONED, DELETED, NOT_READY, TAINTED } from "./store.js";
import { natural, percent, count } from "./format.js";

/** Cells with a name in them, where the map has room for that. */
const NAMED = { wide: 150, high: 38 };
const LARGEST = 22, SMALLEST = 5, LABEL = 22, GAP = 10;
/** Zones past this number are drawn as one: each block would be a few cells. */
const MOST_ZONES = 40;

/**
 * Place the nodes: pure. Returns {cell, wide, named, height, blocks: [{zone, y, rows, nodes}], width, perRow}. Where they
 * fit into `tallest` pixels cells have room for a name; otherwise they are squares, as large as lets all of them fit.
 */
export function layout(store, width, tallest) {
  const zones = new Map();
  for (const node of store.nodes.values()) {
    const name = store.zones[node.zone];
    if (!zones.has(name)) zones.set(name, []);
    zones.get(name).push(node);
  }
  let groups = [...zones].sort(([one], [other]) => natural(one, other));
  if (groups.length > MOST_ZONES) groups = [["all zones", groups.flatMap(([, nodes]) => nodes)]];
  for (const [, nodes] of groups) nodes.sort((one, other) => natural(one.name, other.name));
  const heightOf = (high, wide = high) => {
    const perRow = Math.max(1, Math.floor(width / wide));
    return groups.reduce((sum, [, nodes]) => sum + LABEL + Math.ceil(nodes.length / perRow) * high + GAP, 0);
  };
  const named = width >= NAMED.wide && heightOf(NAMED.high, NAMED.wide) <= tallest;
  let cell = named ? NAMED.high : LARGEST;
  while (!named && cell > SMALLEST && heightOf(cell) > tallest) cell -= 1;
  const wide = named ? Math.floor(width / Math.floor(width / NAMED.wide)) : cell;
  const perRow = Math.max(1, Math.floor(width / wide));
  let y = 0;
  const blocks = groups.map(([zone, nodes]) => {
    const rows = Math.ceil(nodes.length / perRow);
    const block = { zone, y: y + LABEL, rows, nodes };
    y += LABEL + rows * cell + GAP;
    return block;
  });
  return { cell, wide, named, perRow, width, height: Math.max(0, y - GAP), blocks };
}

/** Return the node at a point of a layout, or null. */
export function nodeAt(placed, x, y) {
  const column = Math.floor(x / placed.wide);
  if (column < 0 || column >= placed.perRow) return null;
  for (const block of placed.blocks) {
    const row = Math.floor((y - block.y) / placed.cell);
    if (row >= 0 && row < block.rows) return block.nodes[row * placed.perRow + column] ?? null;
  }
  return null;
}

/** Return where a node is: {block, index, x, y}; null when it is not there. */
export function placeOf(placed, node) {
  for (const block of placed.blocks) {
    const index = block.nodes.indexOf(node);
    if (index >= 0) {
      const row = Math.floor(index / placed.perRow);
      return { block, index, x: (index % placed.perRow) * placed.wide, y: block.y + row * placed.cell };
    }
  }
  return null;
}

/** Return the node that an arrow key leads to. */
export function step(placed, node, key) {
  const place = placeOf(placed, node);
  if (!place) return placed.blocks[0]?.nodes[0] ?? null;
  const { block, index } = place;
  const at = placed.blocks.indexOf(block);
  const column = index % placed.perRow;
  if (key === "ArrowRight") return block.nodes[index + 1] ?? placed.blocks[at + 1]?.nodes[0] ?? node;
  if (key === "ArrowLeft") return block.nodes[index - 1] ?? placed.blocks[at - 1]?.nodes.at(-1) ?? node;
  if (key === "Home") return placed.blocks[0].nodes[0];
  if (key === "End") return placed.blocks.at(-1).nodes.at(-1);
  if (key === "ArrowDown") {
    const next = placed.blocks[at + 1];
    return block.nodes[index + placed.perRow] ?? next?.nodes[Math.min(column, next.nodes.length - 1)] ?? node;
  }
  const before = placed.blocks[at - 1];
  if (index >= placed.perRow) return block.nodes[index - placed.perRow];
  if (!before) return node;
  const last = (before.rows - 1) * placed.perRow + column;
  return before.nodes[Math.min(last, before.nodes.length - 1)];
}

/** Draws a layout; `theme` has the colours: {steps: [...], ink, muted, ground, mark}. */
export class HeatMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.placed = null;
    this.version = -1;
  }

  /** Bring the layout up to date; return whether it is another one. */
  place(store, width, tallest) {
    if (this.version === store.nodesVersion && this.placed?.width === width) return false;
    this.version = store.nodesVersion;
    this.placed = layout(store, width, tallest);
    return true;
  }

  draw(store, column, theme, { selected, cursor, found }) {
    const { canvas, placed } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(placed.width * ratio), height = Math.round(Math.max(placed.height, 1) * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      canvas.style.height = `${placed.height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, placed.width, placed.height);
    const inset = placed.cell > 8 ? 1 : 0.5, size = placed.cell - 2 * inset, wide = placed.wide - 2 * inset;
    for (const block of placed.blocks) {
      this.#label(context, store, column, theme, block);
      block.nodes.forEach((node, index) => {
        const x = (index % placed.perRow) * placed.wide + inset;
        const y = block.y + Math.floor(index / placed.perRow) * placed.cell + inset;
        context.globalAlpha = found && !found(node) ? 0.15 : 1;
        context.fillStyle = colour(theme, store.share(node, column));
        context.fillRect(x, y, wide, size);
        if (placed.named) this.#name(context, store, column, theme, node, x, y, wide);
        if (node.state & (NOT_READY | CORDONED | DELETED | TAINTED)) mark(context, theme, node, x, y, wide, size);
      });
      context.globalAlpha = 1;
    }
    for (const [node, width] of [[selected, 2], [cursor, 2]]) {
      const place = node && placeOf(placed, node);
      if (!place) continue;
      context.strokeStyle = theme.ink;
      context.lineWidth = width;
      context.strokeRect(place.x, place.y, placed.wide, placed.cell);
    }
  }

  #name(context, store, column, theme, node, x, y, wide) {
    const share = store.share(node, column);
    context.font = theme.font;
    context.textBaseline = "alphabetic";
    context.fillStyle = readable(colour(theme, share), theme.ink, theme.card);
    context.fillText(shortened(node.name, Math.floor((wide - 20) / 7)), x + 8, y + 15);
    context.fillText(`${percent(share)} · ${count(node.used[2] ?? 0)} ${node.used[2] === 1 ? "pod" : "pods"}`, x + 8, y + 30);
  }

  #label(context, store, column, theme, block) {
    let has = 0, used = 0;
    for (const node of block.nodes) {
      has += store.shapes[node.shape][column] ?? 0;
      used += node.used[column] ?? 0;
    }
    context.font = theme.font;
    context.textBaseline = "alphabetic";
    context.fillStyle = theme.ink;
    const name = block.zone || "no zone";
    context.fillText(name, 0, block.y - 7);
    context.fillStyle = theme.muted;
    const after = context.measureText(`${name}  `).width;
    context.fillText(`${count(block.nodes.length)} · ${percent(has ? used / has : NaN)}`, after, block.y - 7);
  }
}

/** Return the colour of a share: of ten steps, or the ground where there is none of the resource. */
export function colour(theme, share) {
  if (!Number.isFinite(share)) return theme.ground;
  return theme.steps[Math.min(theme.steps.length - 1, Math.floor(share * (theme.steps.length - 1) + 0.5))];
}

/** Return whichever of two colours can be read better on a ground; all are "#rrggbb". */
export function readable(ground, one, other) {
  const light = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).reduce((sum, part, index) => sum + [0.2126, 0.7152, 0.0722][index] * part ** 2.2, 0.05);
  const contrast = (hex) => Math.max(light(hex), light(ground)) / Math.min(light(hex), light(ground));
  return contrast(one) >= contrast(other) ? one : other;
}

/** Return a name of at most so many characters, both ends of it: what tells names apart is at either. */
export function shortened(name, most) {
  if (name.length <= most) return name;
  const head = Math.ceil((most - 1) / 2);
  return `${name.slice(0, head)}…${name.slice(name.length - (most - 1 - head))}`;
}

/** Mark a node by form, not by colour alone: crossed out when not ready, a bar when cordoned, a corner when tainted. */
function mark(context, theme, node, x, y, wide, size) {
  if (node.state & TAINTED) {
    const corner = Math.max(3, Math.min(9, size * 0.45));
    context.fillStyle = theme.mark;
    context.beginPath();
    context.moveTo(x + wide - corner, y);
    context.lineTo(x + wide, y);
    context.lineTo(x + wide, y + corner);
    context.fill();
  }
  if (!(node.state & (NOT_READY | CORDONED | DELETED))) return;
  x += wide - size; // beside the name, where there is one
  context.strokeStyle = theme.mark;
  context.lineWidth = size > 8 ? 1.5 : 1;
  context.beginPath();
  if (node.state & (NOT_READY | DELETED)) {
    context.moveTo(x + 1, y + 1);
    context.lineTo(x + size - 1, y + size - 1);
    context.moveTo(x + size - 1, y + 1);
    context.lineTo(x + 1, y + size - 1);
  } else {
    context.moveTo(x, y + size / 2);
    context.lineTo(x + size, y + size / 2);
  }
  context.stroke();
}
