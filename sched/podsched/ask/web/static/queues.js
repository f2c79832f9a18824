// The tree of cohorts and queues, with a bar for what is used of each quota.

import { byId, h, keyed, setText } from "./dom.js";
import { count } from "./format.js";

const KINDS = { Cohort: "cohort", ClusterQueue: "ClusterQueue", LocalQueue: "LocalQueue" };
const LARGEST_SHARE = 2 ** 62; // of a queue with weight 0
const INDENTED = 5; // levels that are indented; deeper ones are numbered, so that their names have room

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** Draw what /api/queues answers; return whether there are queues. */
export function drawQueues(found) {
  byId("job-queues").hidden = byId("to-job-queues").hidden = !found.queues.length;
  const more = found.count > found.queues.length ? `the first ${count(found.queues.length)} of ${count(found.count)}` : "";
  setText(byId("job-queues-count"), more);
  keyed(byId("queue-tree"), found.queues, (row) => `${row.kind} ${row.name}`, queueRow, same);
  return found.queues.length > 0;
}

function queueRow(row) {
  const line = h("li", { class: `queue ${row.kind.toLowerCase()}` },
    h("div", { class: "queue-name" }, h("small", { class: "muted" }, level(row.depth)), h("b", {}, row.name), h("small", { class: "muted" }, ` ${KINDS[row.kind]}`), row.problem ? h("small", { class: "bad" }, ` ${row.problem}`) : null),
    h("div", { class: "muted queue-says" }, says(row)),
    h("div", { class: "quotas" }, ...row.quotas.map(quotaBar)));
  line.style.setProperty("--depth", Math.min(row.depth, INDENTED));
  return line;
}

/** The number of a level that is too deep to be indented. */
export function level(depth) {
  return depth > INDENTED ? `${depth}: ` : "";
}

/** What waits and is admitted, and the share of a queue that borrows. */
export function says(row) {
  const words = row.waiting === undefined ? [] : [`${count(row.waiting)} waiting`, `${count(row.admitted)} admitted`];
  if (row.share > LARGEST_SHARE) words.push("borrows with weight 0");
  else if (row.share) words.push(`share ${count(row.share)}`);
  return words.join(", ");
}

function quotaBar([flavor, resource, used, quota, borrowed, within, beyond]) {
  const text = `${used} of ${quota}${borrowed === "0" ? "" : `, ${borrowed} borrowed`}`;
  const bar = h("span", { class: "quota-bar", "aria-hidden": "true" }, h("i"), h("i", { class: "borrowed" }));
  bar.children[0].style.width = `${within * 100}%`;
  bar.children[1].style.width = `${beyond * 100}%`;
  return h("div", { class: "quota", title: `${flavor}: ${resource} ${text}` }, h("span", { class: "quota-name" }, `${flavor} ${resource}`), bar, h("span", { class: "quota-text" }, text));
}
