// Who led when: a lane for each replica, over the time that the charts show.

import { h, s } from "./dom.js";
import { age, clock, nameOf, rate } from "./format.js";

const LANE = 22;

/**
 * Return the lanes: pure. [{name, state, page, terms: [{number, from, to, began, ended}]}]; from and to are parts of the
 * `span` seconds that end now, and a term that began before them begins at 0.
 */
export function lanes(leadership, terms, now, span) {
  const found = new Map();
  const lane = (identity) => {
    const name = nameOf(identity);
    if (!found.has(name)) found.set(name, { name, state: "", page: "", terms: [] });
    return found.get(name);
  };
  for (const [identity, state, , page] of leadership.replicas) {
    const one = lane(identity);
    if (one.state === "" || state !== "gone") Object.assign(one, { state, page });
  }
  for (const [leader, number, began, ended] of terms) {
    if (ended && ended < now - span) continue;
    const part = (at) => Math.min(1, Math.max(0, 1 - (now - at) / span));
    lane(leader).terms.push({ number, began, ended, from: began ? part(began) : 0, to: ended ? part(ended) : 1 });
  }
  return [...found.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
}

export function drawTimeline(element, store) {
  const now = store.now(), span = store.span(), all = lanes(store.leadership, store.terms, now, span);
  if (!all.length) {
    element.replaceChildren(h("p", { class: "empty" }, "No scheduler replica has been seen."));
    return;
  }
  const rows = all.map((lane) => {
    const bars = lane.terms.map((term) => {
      const told = `${lane.name}${term.number ? `, term ${term.number}` : ""}: ${term.began ? clock(term.began) : "?"} – ${term.ended ? clock(term.ended) : "now"}`;
      return s("rect", { class: term.ended ? "term past" : "term", x: `${term.from * 100}%`, y: 5, width: `${Math.max(0.15, (term.to - term.from) * 100)}%`, height: LANE - 10, rx: 2 }, s("title", {}, told));
    });
    const current = lane.terms.find((term) => !term.ended);
    const says = current ? `leads${current.number ? `, term ${current.number}` : ""}${current.began ? `, for ${age(now - current.began)}` : ""}` : lane.state === "standby" ? "stands by" : lane.state || "gone";
    const name = lane.page ? h("a", { href: lane.page, rel: "noreferrer" }, lane.name) : lane.name;
    return h("div", { class: `lane ${current ? "leads" : lane.state || "gone"}` }, h("span", { class: "who" }, name), s("svg", { height: LANE, role: "img", "aria-label": `${lane.name} ${says}` }, s("path", { class: "rail", d: `M0 ${LANE / 2}H4000` }), ...bars), h("span", { class: "muted says" }, says));
  });
  element.replaceChildren(...rows, h("div", { class: "lane axis muted", "aria-hidden": "true" }, h("span"), h("span", { class: "ends" }, h("span", {}, `−${rate(span / 60)} min`), h("span", {}, "now")), h("span")));
}
