// Pending pods, decisions, events, and the nodes as a table.

import { byId, h, keyed, setText } from "./dom.js";
import { age, amount, clock, count, natural, percent } from "./format.js";
import { CORDONED, DELETED, HOLLOW, NOT_READY, TAINTED } from "./store.js";

const same = (one, other) => one.length === other.length && one.every((value, index) => value === other[index]);

/** What is the matter with a node, in words. */
export function stateOf(node) {
  const words = [];
  if (node.state & DELETED) words.push("being deleted");
  words.push(node.state & NOT_READY ? "not ready" : "ready");
  if (node.state & CORDONED) words.push("cordoned");
  if (node.state & TAINTED) words.push("tainted");
  if (node.state & HOLLOW) words.push("hollow");
  return words.join(", ");
}

export function drawGroups(store) {
  const most = Math.max(1, ...store.groups.map(([number]) => number));
  keyed(byId("groups"), store.groups, ([, reason, message]) => `${reason} ${message}`, ([number, reason, message]) => {
    const meter = h("span", { class: "share", "aria-hidden": "true" });
    meter.style.width = `${(number / most) * 100}%`;
    return h("li", {}, h("span", { class: "number" }, count(number)), h("span", { class: "why" }, h("b", {}, reason), " ", message, meter));
  }, (one, other) => same(one, other) && one.most === most);
  const { pending, lines } = store.totals, shown = store.lists.pending.size;
  setText(byId("pending-count"), lines > shown ? `${count(pending)}, the first ${shown} lines below` : count(pending));
}

export function drawPending(store, open) {
  const rows = store.rows("pending"), place = byId("pending-list");
  if (!rows.length) return empty(place, "No pod waits.");
  const body = table(place, ["Pod", "Waits", "Priority", "Reason"], "pending");
  keyed(body, rows, ([key]) => key, ([key, since, reason, message, priority, nominated, ...members]) =>
    h("tr", {}, named(key, open, members), ageCell(store, since), h("td", { class: "num" }, String(priority)), h("td", {}, h("span", { class: "clip", title: message }, nominated ? `room is made on ${nominated}` : reason === "Unschedulable" ? shortly(message) : said(reason, message)))), same);
}

export function drawDecisions(store, open) {
  const rows = store.rows("decisions"), place = byId("log-list");
  if (!rows.length) return empty(place, "No pod has been decided on yet.");
  const body = table(place, ["Time", "Pod", "Decision"], "decisions");
  keyed(body, rows, ([key]) => key, ([key, at, node, reason, message]) =>
    h("tr", {}, h("td", { class: "time" }, clock(at)), named(key, open), h("td", {}, node ? link(node, () => open("node", node)) : h("span", { class: reason === "Scheduled" ? "clip" : "clip bad", title: message }, shortly(message) || reason))), same);
}

export function drawEvents(store, open) {
  const rows = store.rows("events"), place = byId("log-list");
  if (!rows.length) return empty(place, store.process.name === "scheduler" ? "A scheduler does not follow events: an API server's page shows them." : "No events.");
  const body = table(place, ["Time", "Object", "Event"], "events");
  keyed(body, rows, ([key]) => key, ([, at, type, reason, object, message, times]) => {
    const [kind, name] = object.split(" ");
    const about = ["Pod", "Node", "PodGroup"].includes(kind) ? link(name, () => open(kind.toLowerCase(), name)) : object;
    return h("tr", {}, h("td", { class: "time" }, clock(at)), h("th", { scope: "row" }, about), h("td", {}, h("span", { class: type === "Warning" ? "clip bad" : "clip", title: message }, h("b", {}, reason), times > 1 ? ` ×${count(times)}` : "", ` ${message}`)));
  }, same);
}

/** The nodes as a table: what the canvas shows, for those who cannot see it and for sorting. */
export class NodeTable {
  constructor(element, open) {
    this.element = element;
    this.open = open;
    this.by = 0;
    this.down = false;
    this.shown = 50;
  }

  draw(store, found) {
    const headings = ["Node", "Zone", "State", ...store.resources.slice(0, 6)];
    const value = (node) => [node.name, store.zones[node.zone], stateOf(node)][this.by] ?? store.share(node, this.by - 3);
    let nodes = [...store.nodes.values()];
    if (found) nodes = nodes.filter(found);
    const order = this.by < 3 ? (a, b) => natural(value(a), value(b)) : (a, b) => (value(a) || 0) - (value(b) || 0);
    nodes.sort((a, b) => (this.down ? -order(a, b) : order(a, b)) || natural(a.name, b.name));
    const head = headings.map((text, index) =>
      h("th", { scope: "col", class: index > 2 ? "num" : null, "aria-sort": this.by === index ? (this.down ? "descending" : "ascending") : null }, h("button", { class: "sort", "data-by": index, onclick: () => this.#sort(index, store, found) }, text)));
    const rows = nodes.slice(0, this.shown).map((node) =>
      h("tr", {}, h("th", { scope: "row" }, link(node.name, () => this.open("node", node.name))), h("td", {}, store.zones[node.zone] || "–"), h("td", {}, stateOf(node)), ...store.resources.slice(0, 6).map((resource, column) => {
        const has = store.shapes[node.shape][column];
        return h("td", { class: "num", title: `${amount(resource, node.used[column] ?? 0)} of ${amount(resource, has)}` }, percent(store.share(node, column)));
      })));
    const focused = document.activeElement?.dataset?.by;
    const more = nodes.length > this.shown ? h("button", { onclick: () => { this.shown += 200; this.draw(store, found); } }, `Show more of ${count(nodes.length)}`) : null;
    this.element.replaceChildren(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes" }, h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows))), ...(more ? [more] : []));
    if (focused !== undefined) this.element.querySelector(`[data-by="${focused}"]`)?.focus();
  }

  #sort(index, store, found) {
    this.down = this.by === index ? !this.down : index > 2;
    this.by = index;
    this.draw(store, found);
  }
}

/** Bring ages up to date without making rows anew. */
export function refreshAges(store) {
  for (const cell of document.querySelectorAll("[data-since]")) setText(cell, age(store.now() - Number(cell.dataset.since)));
}

/** A reason without what the count of nodes and preemption add to it. */
export const shortly = (message) => message.replace(/^\d+\/\d+ nodes are available: /, "").replace(/ [^.]*preemption: .*$/s, "");

export function link(text, action) {
  return h("button", { class: "go", onclick: action }, text);
}

/** The name of a line's pod or, with "PodGroup " in front of it, pod group. members: [with a node, all, policy]. */
function named(key, open, [withNode, all, policy] = []) {
  const group = groupOf(key);
  if (!group) return h("th", { scope: "row" }, link(key, () => open("pod", key)));
  const what = policy === undefined ? h("small", { class: "muted" }, " group") : h("small", { class: "members" }, `${policied(policy)}, ${withNodes(withNode, all)}`);
  return h("th", { scope: "row" }, link(group, () => open("podgroup", group)), what);
}

/** The name of the pod group that a line is about, "" if it is about a pod. */
export const groupOf = (key) => (key.startsWith("PodGroup ") ? key.slice("PodGroup ".length) : "");

/** "gang of at least 4", "basic group", or "group" where the policy is not known. */
export const policied = (policy) => (policy.startsWith("gang") ? policy : `${policy} group`.trim());

/** How many members have a node. */
export const withNodes = (some, all) => `${count(some)} of ${count(all)} with a node`;

/** What a state says beside its name; a group that has started may have members that wait. */
export function said(reason, message) {
  if (reason === "Scheduled") return `others wait: ${shortly(message)}`;
  return message ? `${reason}: ${message}` : reason;
}

/** An age that is kept up to date; since: 0 if it is not known. */
const ageCell = (store, since) => (since ? h("td", { class: "age", "data-since": since }, age(store.now() - since)) : h("td", { class: "age" }, "–"));

function empty(place, text) {
  if (place.dataset.shows === "empty" && place.textContent === text) return;
  place.dataset.shows = "empty";
  place.replaceChildren(h("p", { class: "empty" }, text));
}

/** The pods that match what is searched for. found: what /api/pods answers. */
export function drawPods(store, found, open) {
  const place = byId("pod-list");
  setText(byId("pods-count"), found.lines > found.pods.length ? `${count(found.count)}, the first ${found.pods.length} lines below` : count(found.count));
  const chosen = byId("namespace").value;
  const options = [["", "all namespaces"], ...found.namespaces.map(([name, number]) => [name, `${name} (${count(number)})`])];
  if (chosen && !options.some(([name]) => name === chosen)) options.push([chosen, chosen]);
  keyed(byId("namespace"), options, ([name]) => name, ([name, text]) => h("option", { value: name }, text), same);
  byId("namespace").value = chosen;
  if (!found.pods.length) return empty(place, found.namespaces.length ? "No pod and no pod group is called so." : "The cluster has no pods.");
  const body = table(place, ["Pod", "State", "Node", "cpu", "memory", "Age"], "pods");
  keyed(body, found.pods, ([key]) => key, ([key, phase, node, cpu, memory, since, ...members]) =>
    h("tr", {}, named(key, open, members), h("td", {}, phase), h("td", {}, node ? link(node, () => open("node", node)) : "–"), h("td", { class: "num" }, amount("cpu", cpu)), h("td", { class: "num" }, amount("memory", memory)), ageCell(store, since)), same);
}

/** Return the body of the table in a place, which is made unless it is there. */
function table(place, headings, shows) {
  if (place.dataset.shows !== shows) {
    place.dataset.shows = shows;
    const head = h("tr", {}, ...headings.map((text) => h("th", { scope: "col", class: ["Priority", "cpu", "memory"].includes(text) ? "num" : null }, text)));
    place.replaceChildren(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": shows }, h("table", { class: shows }, h("thead", {}, head), h("tbody"))));
  }
  return place.querySelector("tbody");
}
