// One node, pod or pod group, and what may be done with it.

import { byId, h } from "./dom.js";
import { drawExplanation } from "./explain.js";
import { age, amount, clock, count, percent, unavailable } from "./format.js";
import { link, said, stateOf, withNodes } from "./panels.js";
import { CORDONED, HOLLOW, NOT_READY } from "./store.js";

export class Detail {
  /** rights: a function that returns {cordon, delete}; told: called with an error to show. */
  constructor(element, server, store, rights, told) {
    Object.assign(this, { element, server, store, rights, told });
    this.shown = null;
    this.clear();
  }

  clear() {
    this.shown = null;
    this.element.classList.remove("open");
    this.overview();
  }

  /** Show the cluster as a whole, while nothing is chosen. */
  overview() {
    const { has, used } = this.store.sums(), { nodes } = this.store;
    const [broken, cordoned, hollow] = [NOT_READY, CORDONED, HOLLOW].map((flag) => this.store.having(flag));
    const rows = this.store.resources.map((name, column) => meter(name, used[column], has[column]));
    this.element.replaceChildren(
      h("div", { class: "bar" }, h("h2", { id: "detail-title" }, "All nodes")),
      h("div", { class: "meters" }, ...rows),
      facts([["Not ready", count(broken)], ["Cordoned", count(cordoned)], ["Hollow", count(hollow)], ["Zones", count(new Set([...nodes.values()].map((node) => this.store.zones[node.zone]).filter(Boolean)).size)]]),
      hollow ? h("p", { class: "muted" }, "Hollow nodes are played by sched agent: their pods are shown as Running, and nothing is run.") : "",
      h("p", { class: "empty" }, "Choose a node, a pod or a pod group to see more of it."));
  }

  /** Show an object and move the focus there. */
  async open(kind, name) {
    this.shown = { kind, name };
    this.why = this.explained = null;
    this.element.classList.add("open");
    if (await this.refresh()) this.element.focus({ preventScroll: !matchMedia("(max-width: 1100px)").matches });
  }

  /** Read it anew; return whether it is still what is to be shown. */
  async refresh() {
    const shown = this.shown;
    if (!shown) return false;
    try {
      const path = shown.name.split("/").map(encodeURIComponent).join("/");
      const found = await this.server.json(`/api/${shown.kind}/${path}`);
      if (this.shown !== shown) return false;
      // An explanation is of what the object was: not of its name's next owner, nor of a pod that has a node by now.
      const explained = [found.created, found.node, found.waits].join();
      if (this.explained !== explained) Object.assign(this, { explained, why: null });
      const waits = shown.kind === "pod" ? !found.node : found.waits && found.policy;
      if (waits && this.rights().explain && !this.why) this.explain(false);
      const drawn = { node: () => this.#node(found), pod: () => this.#pod(found), podgroup: () => this.#podGroup(found) }[shown.kind]();
      this.#replace(shown, drawn);
    } catch (error) {
      if (this.shown !== shown) return false;
      this.#replace(shown, [h("p", { class: "empty" }, error.message)]);
    }
    return true;
  }

  #replace(shown, drawn) {
    const openParts = new Set([...this.element.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
    const focused = this.element.contains(document.activeElement) ? document.activeElement.textContent : null;
    const top = this.element.scrollTop;
    const close = h("button", { class: "close", "aria-label": "Close details", onclick: () => this.clear() }, "×");
    this.element.replaceChildren(h("div", { class: "bar" }, h("h2", { id: "detail-title" }, h("small", { class: "muted" }, `${shown.kind === "podgroup" ? "pod group" : shown.kind} `), shown.name), close), ...drawn);
    for (const summary of this.element.querySelectorAll("summary")) summary.parentElement.open = openParts.has(summary.textContent);
    this.element.scrollTop = top;
    if (focused) [...this.element.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
  }

  #node(found) {
    const used = {};
    for (const [, , , requests] of found.pods) for (const [name, value] of Object.entries(requests)) used[name] = (used[name] ?? 0) + value;
    const cordoned = found.state & CORDONED;
    const rows = Object.entries(found.allocatable).map(([name, has]) => meter(name, used[name] ?? 0, has));
    const pods = [...found.pods].sort((a, b) => (b[3].cpu ?? 0) - (a[3].cpu ?? 0));
    return [
      facts([["State", stateOf(found)], ["Zone", found.zone || "–"], ["Age", found.created ? age(this.store.now() - found.created) : "–"]]),
      found.state & HOLLOW ? h("p", { class: "muted" }, "A hollow node: sched agent plays it, and nothing runs on it.") : null,
      this.#readOnly(),
      this.rights().cordon ? h("p", {}, h("button", { onclick: () => this.#act(cordoned ? "uncordon" : "cordon", found.name) }, cordoned ? "Uncordon" : "Cordon")) : null,
      h("h3", {}, "Taken"), h("div", { class: "meters" }, ...rows),
      found.taints.length ? h("div", {}, h("h3", {}, "Taints"), h("ul", { class: "plain" }, ...found.taints.map((taint) => h("li", {}, taint)))) : null,
      h("h3", {}, "Pods ", h("small", { class: "muted" }, count(found.podCount))),
      pods.length ? h("table", {}, h("tbody", {}, ...pods.map(([key, phase, , requests]) => h("tr", {}, h("th", { scope: "row" }, link(key, () => this.open("pod", key))), h("td", {}, phase), h("td", { class: "num" }, amount("cpu", requests.cpu ?? 0)), h("td", { class: "num" }, amount("memory", requests.memory ?? 0)))))) : h("p", { class: "empty" }, "No pod is here."),
      ...this.#devices(found),
      labels(found.labels),
    ].filter(Boolean);
  }

  /** The devices that the node alone has, and which of its pods use them. */
  #devices(found) {
    if (!found.deviceCount) return [];
    const used = found.devices.filter(([, , , users]) => users.length).length;
    const rows = found.devices.map(([driver, name, , users]) => h("tr", {},
      h("th", { scope: "row" }, name, h("small", { class: "muted" }, ` ${driver}`)),
      h("td", {}, ...users.map((key) => h("div", {}, link(key, () => this.open("pod", key)))))));
    const attributes = found.devices.map(([, name, values]) => h("li", {}, h("b", {}, name), ` ${Object.entries(values).map(([key, value]) => `${key} ${value}`).join(", ")}`));
    return [
      h("h3", {}, "Devices ", h("small", { class: "muted" }, `${count(found.deviceCount)}, of which its pods use ${count(used)}`)),
      h("table", {}, h("tbody", {}, ...rows)),
      found.deviceCount > found.devices.length ? h("p", { class: "muted small" }, `and ${count(found.deviceCount - found.devices.length)} more`) : null,
      h("details", {}, h("summary", {}, `Attributes of devices (${found.devices.length})`), h("ul", { class: "plain" }, ...attributes)),
    ];
  }

  #pod(found) {
    const scheduled = found.conditions.find(([type]) => type === "PodScheduled");
    const waits = !found.node && scheduled && scheduled[1] === "False" && !this.why?.found;
    return [
      facts([
        ["Phase", found.phase],
        ["Node", found.node ? link(found.node, () => this.open("node", found.node)) : found.nominated ? `room is made on ${found.nominated}` : "none"],
        ...(found.group ? [["Group", link(found.group, () => this.open("podgroup", found.group))]] : []),
        ["Priority", String(found.priority)], ["Scheduler", found.scheduler], ["Age", found.created ? age(this.store.now() - found.created) : "–"],
        ["Requests", requested(found.requests)],
      ]),
      this.#readOnly(),
      this.rights().delete ? h("p", {}, h("button", { class: "danger", onclick: () => this.#delete(found.key) }, "Delete")) : null,
      this.#why(found.node ? "Why it is there" : "Why it waits", !found.node),
      waits ? why(scheduled[3]) : null,
      found.gates.length ? h("p", {}, `Waits for its gates: ${found.gates.join(", ")}.`) : null,
      ...claims(found.claims),
      ...history(found),
      labels(found.labels),
    ].filter(Boolean);
  }

  #podGroup(found) {
    const explained = this.why?.found;
    return [
      facts([
        ["State", found.state], ["Policy", found.policy || "not known"], ["Members", withNodes(found.withNode, found.members)],
        ...(found.ended ? [["Ended", count(found.ended)]] : []),
        ...(found.topology.length ? [["Topology", found.topology.join(", ")]] : []),
        ["Priority", String(found.priority)], ["Age", found.created ? age(this.store.now() - found.created) : "–"],
        ["Requests", requested(found.requests)],
      ]),
      found.message && !explained ? h("p", {}, said(found.state, found.message)) : null,
      found.waits && found.policy ? this.#why("Why it waits", true) : null,
      h("h3", {}, "Members ", h("small", { class: "muted" }, count(found.members + found.ended))),
      found.listed.length ? h("table", {}, h("tbody", {}, ...found.listed.map(([key, phase, node]) => h("tr", {}, h("th", { scope: "row" }, link(key, () => this.open("pod", key))), h("td", {}, phase), h("td", {}, node ? link(node, () => this.open("node", node)) : "–"))))) : h("p", { class: "empty" }, "No pod names this group."),
      found.hidden ? h("p", { class: "muted small" }, `and ${count(found.hidden)} more`) : null,
      ...history(found),
      labels(found.labels),
    ].filter(Boolean);
  }

  /** Say where to act, on a page that cannot; what roles forbid is left out instead. */
  #readOnly() {
    return this.store.process.acts ? null : h("p", { class: "muted" }, "A scheduler's page changes nothing and follows no events; an API server's page does both.");
  }

  /** Ask for an explanation of the pod or group that is shown; changes: also for what would make it fit. */
  async explain(changes) {
    const shown = this.shown, mine = { asking: true, found: this.why?.found };
    this.why = mine;
    try {
      const path = shown.name.split("/").map(encodeURIComponent).join("/");
      const asked = `kind=${shown.kind === "podgroup" ? "PodGroup" : "Pod"}${changes ? "&changes" : ""}`;
      mine.found = await this.server.json(`/api/explain/${path}?${asked}`);
    } catch (error) {
      mine.error = error.message;
    }
    mine.asking = false;
    if (this.shown === shown) await this.refresh();
  }

  #why(title, waits) {
    if (!this.rights().explain) return null;
    const { asking, found, error } = this.why ?? {};
    const ask = (text, changes) => h("button", { disabled: asking, onclick: () => this.explain(changes) }, text);
    return h("section", { class: "why-it", "aria-busy": String(Boolean(asking)) },
      h("div", { class: "bar" }, h("h3", {}, title), ask(found ? "Explain again" : "Explain", false), waits ? ask("What would help?", true) : null),
      asking && !found ? h("p", { class: "muted" }, "Asking…") : null,
      error ? h("p", { class: "bad" }, error) : null,
      ...(found ? drawExplanation(found, (kind, name) => this.open(kind, name)) : []));
  }

  async #act(verb, name) {
    try {
      await this.server.act(verb, name);
      await this.refresh();
    } catch (error) {
      this.told(`${verb} ${name}: ${error.message}`);
    }
  }

  async #delete(key) {
    if (await confirmed(`Delete pod ${key}?`, "It ends and is not made again unless something owns it.", "Delete")) await this.#act("delete", key);
  }
}

/** Ask before something that cannot be undone. */
function confirmed(title, text, yes) {
  const dialog = byId("confirm");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

/** Draw why a pod fits nowhere: how many nodes each reason takes away. */
function why(message) {
  const parsed = unavailable(message);
  if (!parsed) return h("div", {}, h("h3", {}, "Why it waits"), h("p", {}, message));
  const [fit, all, reasons] = parsed;
  return h("div", { class: "funnel" }, h("h3", {}, "Why it waits"), bar(all, all, "nodes"), ...reasons.map(([number, reason]) => bar(number, all, reason, "taken")), bar(fit, all, "left"), h("p", { class: "muted" }, message));
}

export function bar(number, all, text, style = "") {
  const fill = h("span", { class: `fill ${style}`, "aria-hidden": "true" });
  fill.style.width = `${all ? (number / all) * 100 : 0}%`;
  return h("div", { class: "step" }, h("span", { class: "num" }, count(number)), h("span", { class: "text" }, fill, text));
}

function meter(name, used, has) {
  const fill = h("span", { class: "fill", "aria-hidden": "true" });
  fill.style.width = `${has ? Math.min(100, (used / has) * 100) : 0}%`;
  return h("div", { class: "meter" }, h("span", {}, name), h("span", { class: "track" }, fill), h("span", { class: "num" }, `${amount(name, used)} / ${amount(name, has)}`), h("span", { class: "num muted" }, percent(has ? used / has : NaN)));
}

function facts(pairs) {
  return h("dl", { class: "facts" }, ...pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** The claims of a pod, with the devices that they have. */
function claims(all) {
  if (!all.length) return [];
  const states = { missing: "is not there yet", pending: "has no devices yet" };
  const lines = all.map(([reference, name, state, devices]) => h("li", {},
    h("b", {}, reference), name && name !== reference ? h("span", { class: "muted" }, ` ${name}`) : "",
    states[state] ? ` ${states[state]}` : "",
    devices.length ? h("ul", { class: "plain" }, ...devices.map(([driver, pool, device]) => h("li", {}, device, h("span", { class: "muted" }, ` of ${pool}, ${driver}`)))) : ""));
  return [h("h3", {}, "Claims"), h("ul", { class: "plain claims" }, ...lines)];
}

const requested = (amounts) => Object.entries(amounts).filter(([name]) => name !== "pods").map(([name, value]) => `${name} ${amount(name, value)}`).join(", ") || "nothing";

/** Conditions and events. */
function history(found) {
  return [
    h("h3", {}, "Conditions"),
    found.conditions.length ? h("ul", { class: "plain" }, ...found.conditions.map(([type, status, reason, , at]) => h("li", {}, h("b", {}, type), ` ${status}`, reason ? ` (${reason})` : "", h("span", { class: "muted" }, at ? ` ${clock(at)}` : "")))) : h("p", { class: "empty" }, "None yet."),
    found.events.length ? h("div", {}, h("h3", {}, "Events"), h("ul", { class: "plain" }, ...found.events.map(([at, , reason, , message, times]) => h("li", {}, h("span", { class: "muted" }, `${clock(at)} `), h("b", {}, reason), times > 1 ? ` ×${count(times)}` : "", ` ${message}`)))) : null,
  ];
}

function labels(all) {
  const entries = Object.entries(all);
  if (!entries.length) return null;
  return h("details", {}, h("summary", {}, `Labels (${entries.length})`), h("ul", { class: "plain" }, ...entries.map(([name, value]) => h("li", {}, h("code", {}, value ? `${name}=${value}` : name)))));
}
