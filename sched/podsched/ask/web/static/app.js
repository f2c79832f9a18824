// Wires the page: the store, the stream, and what draws.

import { Chart } from "./chart.js";
import { Detail } from "./detail.js";
import { byId, h, setText } from "./dom.js";
import { amount, bytes, count, milliseconds, nameOf, percent, rate } from "./format.js";
import { HeatMap, nodeAt, step } from "./heat.js";
import { NodeTable, drawDecisions, drawEvents, drawGroups, drawPending, drawPods, refreshAges, stateOf } from "./panels.js";
import { HOLLOW, Store } from "./store.js";
import { drawQueues } from "./queues.js";
import { Server, follow } from "./stream.js";
import { drawTimeline } from "./timeline.js";

const TALLEST_MAP = 420;
const store = new Store(), server = new Server();
let rights = {}, cursor = null, column = 0, log = "decisions", asTable = false, query = "", busy = false, tried = false;
const stale = new Set();

const heat = new HeatMap(byId("heat"));
const detail = new Detail(byId("detail"), server, store, () => rights, notice);
const table = new NodeTable(byId("table"), open);
const charts = [
  new Chart(byId("throughput"), "Throughput", [{ label: "bound", column: 1, style: "one" }, { label: "failed attempts", column: 2, style: "two" }], rate, { unit: "per second" }),
  new Chart(byId("latency"), "Latency", [{ label: "attempt p50", column: 7, style: "one" }, { label: "attempt p99", column: 8, style: "two" }, { label: "pod p99", column: 10, style: "three" }], milliseconds, { log: true, none: "No pod was tried in this time." }),
  new Chart(byId("queues"), "Queues", [{ label: "active", column: 3, style: "one" }, { label: "backoff", column: 4, style: "two" }, { label: "unschedulable", column: 5, style: "three" }, { label: "gated", column: 6, style: "four" }], count, { unit: "pods" }),
];

// ---------------------------------------------------------------- drawing

const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;
function themed() {
  if (theme) return theme;
  const style = getComputedStyle(document.documentElement), value = (name) => style.getPropertyValue(name).trim();
  theme = {
    steps: Array.from({ length: 11 }, (_, index) => value(`--heat-${index}`)),
    ink: value("--ink"), muted: value("--muted"), card: value("--card"), ground: value("--ground"), mark: value("--mark"),
    font: `12px ${style.fontFamily}`,
  };
  return theme;
}
dark.addEventListener("change", () => { theme = null; later("nodes", "scale"); });

/** Draw before the next frame what is not current any more. */
function later(...what) {
  for (const one of what) stale.add(one);
  if (busy || !stale.size) return;
  busy = true;
  requestAnimationFrame(() => {
    busy = false;
    const began = performance.now(), names = new Set(stale);
    stale.clear();
    draw(names);
    cost.draw = performance.now() - began;
    showCost();
  });
}

/** What is read of the layout: before anything is drawn, and only when it may have changed. */
const sizes = { chart: 0, map: 0 };

function draw(names) {
  if (names.has("size") || names.has("all") || !sizes.map) {
    sizes.chart = byId("throughput").clientWidth - 24;
    sizes.map = byId("map").clientWidth;
  }
  const any = (...wanted) => wanted.some((name) => names.has(name));
  if (any("all", "totals", "leadership", "samples", "use", "nodes", "gone")) drawTiles();
  if (any("all", "leadership", "terms", "samples", "size")) drawTimeline(byId("lanes"), store);
  if (any("all", "samples", "size")) for (const chart of charts) chart.draw(store, sizes.chart);
  if (any("all", "scale", "nodes", "use", "gone", "size")) drawNodes(any("all", "scale"));
  if (!detail.shown && any("all", "nodes", "use", "gone", "scale")) detail.overview();
  if (any("all", "groups", "totals")) drawGroups(store);
  if (any("all", "pending")) drawPending(store, open);
  if (any("all", "log", log)) (log === "events" ? drawEvents : drawDecisions)(store, open);
}

function drawTiles() {
  const { leadership, totals } = store, { has, used } = store.sums(), sample = store.samples.at(-1) ?? [];
  const leading = leadership.replicas.find(([identity]) => identity === leadership.leader);
  const standing = leadership.replicas.filter(([, state]) => state === "standby").length;
  setText(byId("lock"), leadership.lock);
  const term = leading?.[2] ? `term ${leading[2]}` : leadership.leader ? "term not known here" : "nothing is scheduled";
  const cells = [
    ["Leader", leadership.paused ? "paused" : nameOf(leadership.leader) || "none", leadership.paused ? `by ${leadership.paused}` : `${term}, ${standing} standing by`, !leadership.leader || leadership.paused],
    ["Nodes", count(totals.usable), totals.usable === totals.nodes ? "all ready" : `of ${count(totals.nodes)} take pods`, totals.usable < 0.95 * totals.nodes],
    ["Bound", count(totals.bound), totals.ended ? `${count(totals.ended)} ended` : "pods"],
    ["Pending", count(totals.pending), store.groups.length > 1 ? `${store.groups.length} reasons` : store.groups[0]?.[1] ?? "no pod waits"],
    ["Throughput", sample.length > 1 ? `${rate(sample[1])}/s` : "–", sample.length > 7 && sample[8] ? `attempt p99 ${milliseconds(sample[8])}` : "idle"],
    ["Taken", percent(has[0] ? used[0] / has[0] : NaN), `of cpu, ${percent(has[1] ? used[1] / has[1] : NaN)} of memory`],
  ];
  const place = byId("tiles");
  if (place.children.length !== cells.length) {
    place.replaceChildren(...cells.map(([name]) => h("div", { class: "tile" }, h("h2", {}, name), h("p", { class: "value" }), h("p", { class: "muted" }))));
  }
  cells.forEach(([, value, note, bad], index) => {
    const tile = place.children[index];
    setText(tile.children[1], value);
    setText(tile.children[2], note);
    tile.classList.toggle("attention", Boolean(bad));
  });
}

/** Ask for the pods that are searched for; only the latest answer is drawn. */
let asked = 0;
async function findPods() {
  const mine = (asked += 1);
  const wanted = new URLSearchParams({ find: byId("find-pod").value, namespace: byId("namespace").value });
  try {
    const answer = await server.json(`/api/pods?${wanted}`);
    if (mine === asked) drawPods(store, answer, open);
  } catch (error) {
    if (mine === asked) setText(byId("pods-count"), error.message);
  }
}

/** Ask for the queues, if there may be any: often while there are some. */
let askAt = 0;
async function findQueues() {
  if (document.hidden || !store.id || performance.now() < askAt) return;
  askAt = Infinity;
  let some = false;
  try {
    some = drawQueues(await server.json("/api/queues"));
  } catch {
    // The stream tells why the server does not answer.
  }
  askAt = performance.now() + (some ? 0 : 10000);
}

const found = () => (query ? (node) => node.name.includes(query) || store.zones[node.zone].includes(query) : null);

function drawNodes(scaled) {
  const select = byId("resource");
  if (select.options.length !== store.resources.length) {
    select.replaceChildren(...store.resources.map((name, index) => h("option", { value: index, selected: index === column }, name)));
  }
  if (scaled) drawScale();
  const hollow = store.having(HOLLOW);
  setText(byId("hollow"), hollow ? `${hollow === store.nodes.size ? "all" : count(hollow)} hollow: nothing runs on them` : "");
  byId("no-nodes").hidden = store.nodes.size > 0;
  setText(byId("no-nodes"), "The cluster has no nodes.");
  byId("heat").hidden = !store.nodes.size;
  byId("map").hidden = asTable;
  byId("table").hidden = !asTable;
  byId("scale").hidden = asTable;
  if (asTable) return table.draw(store, found());
  heat.place(store, sizes.map || byId("map").clientWidth, TALLEST_MAP);
  const chosen = detail.shown?.kind === "node" ? store.byName.get(detail.shown.name) : null;
  cursor = cursor && (store.byName.get(cursor.name) ?? null);
  heat.draw(store, column, themed(), { selected: chosen, cursor: document.activeElement === heat.canvas ? cursor : null, found: found() });
}

function drawScale() {
  const steps = themed().steps.map((_, index) => h("i", { class: `h${index}` }));
  byId("scale").replaceChildren(h("span", {}, "0 %"), ...steps, h("span", {}, "100 %"), h("span", { class: "marks" }, h("i", { class: "sample cross" }), "not ready ", h("i", { class: "sample dash" }), "cordoned ", h("i", { class: "sample corner" }), "tainted"));
}

// ---------------------------------------------------------------- what the user does

function open(kind, name) {
  detail.open(kind, name).then(() => later("scale"));
}

function notice(text) {
  const place = byId("notice");
  place.hidden = !text;
  place.replaceChildren(text, h("button", { class: "close", "aria-label": "Dismiss", onclick: () => notice("") }, "×"));
}

function spoken(node) {
  return `${node.name}${store.zones[node.zone] ? ` in ${store.zones[node.zone]}` : ""}, ${stateOf(node)}: ${store.resources[column]} ${percent(store.share(node, column))}, ${count(node.used[2] ?? 0)} pods`;
}

const canvas = heat.canvas, tip = byId("tip");
canvas.addEventListener("pointermove", (event) => {
  const node = heat.placed && nodeAt(heat.placed, event.offsetX, event.offsetY);
  tip.hidden = !node;
  canvas.classList.toggle("over", Boolean(node));
  if (!node) return;
  const resource = store.resources[column], shape = store.shapes[node.shape];
  tip.replaceChildren(h("b", {}, node.name), h("br"), `${resource} ${amount(resource, node.used[column] ?? 0)} of ${amount(resource, shape[column] ?? 0)} (${percent(store.share(node, column))})`, h("br"), `${count(node.used[2] ?? 0)} pods, ${stateOf(node)}`);
  const left = Math.min(event.offsetX + 14, canvas.clientWidth - tip.offsetWidth);
  tip.style.transform = `translate(${Math.max(0, left)}px, ${event.offsetY + 16}px)`;
});
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
canvas.addEventListener("click", (event) => {
  const node = nodeAt(heat.placed, event.offsetX, event.offsetY);
  if (!node) return;
  cursor = node;
  open("node", node.name);
});
canvas.addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === " ") {
    if (cursor) open("node", cursor.name);
  } else if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
    cursor = step(heat.placed, cursor, event.key);
    if (cursor) setText(byId("spoken"), spoken(cursor));
    later("use");
  } else return;
  event.preventDefault();
});
canvas.addEventListener("focus", () => { cursor ??= heat.placed?.blocks[0]?.nodes[0] ?? null; if (cursor) setText(byId("spoken"), spoken(cursor)); later("use"); });
canvas.addEventListener("blur", () => later("use"));
byId("resource").addEventListener("change", (event) => { column = Number(event.target.value); later("scale"); });
byId("find").addEventListener("input", (event) => { query = event.target.value.trim().toLowerCase(); later("scale"); });
let typing = 0;
byId("find-pod").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(findPods, 200); });
byId("namespace").addEventListener("change", findPods);
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && detail.shown && !byId("confirm").open) { detail.clear(); later("scale"); } });
choice("as-map", "as-table", (second) => { asTable = second; later("scale"); });
choice("show-decisions", "show-events", (second) => { log = second ? "events" : "decisions"; later("log"); });

/** Two buttons of which one is pressed. */
function choice(one, other, chosen) {
  for (const id of [one, other]) {
    byId(id).addEventListener("click", () => {
      byId(one).setAttribute("aria-pressed", String(id === one));
      byId(other).setAttribute("aria-pressed", String(id === other));
      chosen(id === other);
    });
  }
}

new ResizeObserver(() => later("size")).observe(document.body);
setInterval(() => { if (!document.hidden) { refreshAges(store); detail.refresh(); if (store.id) findPods(); } }, 5000);

setInterval(findQueues, 1000);

// ---------------------------------------------------------------- from the server

const cost = { size: 0, apply: 0, draw: 0, updates: 0, longest: 0 };
function showCost() {
  const total = cost.apply + cost.draw;
  if (cost.updates > 1) cost.longest = Math.max(cost.longest, total);
  const place = byId("cost");
  place.dataset.bytes = cost.size;
  place.dataset.ms = total.toFixed(2);
  place.dataset.longest = cost.longest.toFixed(2);
  place.dataset.updates = cost.updates;
  setText(place, `last update ${bytes(cost.size)}, drawn in ${milliseconds(Math.max(total, 0.1))}`);
}

function measured(size, change) {
  const began = performance.now();
  const names = change();
  cost.apply = performance.now() - began;
  cost.size = size;
  cost.updates += 1;
  byId("main").setAttribute("aria-busy", "false");
  later(...names);
}

const on = {
  state(state, size) {
    byId("login").hidden = true;
    measured(size, () => { store.load(state); return ["all"]; });
    const { name, host, version, acts } = store.process;
    setText(byId("process"), `${name === "apiserver" ? "API server" : name} on ${host}${acts ? "" : ", read-only"}`);
    setText(byId("about"), `podsched ${version}`);
    findPods();
    server.json("/api/rights").then((may) => { rights = may; detail.refresh(); }, () => { rights = {}; });
  },
  delta(delta, size) {
    measured(size, () => store.apply(delta));
  },
  link(state, why) {
    const place = byId("link"), text = { loading: "loading", live: "live", waiting: "reconnecting", refused: "not signed in" }[state];
    place.dataset.state = state;
    place.title = why ?? "";
    setText(place, text);
  },
  refused(error) {
    byId("login").hidden = false;
    byId("main").setAttribute("aria-busy", "true");
    // The first time nothing has been tried yet.
    setText(byId("refused"), error.status === 401 && !tried ? "" : error.message);
    byId("login").elements.token.focus();
  },
};
byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  tried = true;
  server.token = byId("login").elements.token.value.trim();
  byId("login").reset();
  follow(server, on);
});
follow(server, on);
