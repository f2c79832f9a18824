// Why a pod or a pod group waits, or a pod is where it is: an Explanation, as `sched explain -o json` prints it, drawn.

import { h } from "./dom.js";
import { age, amount, clock, count, counted, percent } from "./format.js";
import { link } from "./panels.js";

const MOST_GROUPS = 6, MOST_SCORES = 5;
// Seconds that stand for later or never in an estimate.
const NEVER = 30 * 86400;

/** The steps of a funnel that filter anything: pure. [{plugin, before, after, rejected, reasons}] */
export function steps(explanation) {
  return (explanation.funnel ?? [])
    .filter((step) => !step.skipped && (step.rejected ?? 0) > 0)
    .map((step) => ({ plugin: step.plugin || "PreFilter", before: step.before ?? 0, after: step.after ?? 0, rejected: step.rejected, reasons: (step.reasons ?? []).map((one) => [one.nodes ?? 0, one.reason]) }));
}

/** An amount of a shortfall: {unit: m | bytes | ""}. */
export function lacking(value, unit) {
  if (unit === "m") return amount("cpu", Number(value));
  return unit === "bytes" ? amount("memory", Math.ceil(Number(value) / 1048576)) : count(Number(value));
}

/** Return what an explanation is drawn as. */
export function drawExplanation(found, open) {
  return [
    found.message && !found.funnel?.length ? h("p", {}, found.message) : null,
    queue(found.queue),
    admission(found.admission),
    attempts(found.attempts ?? []),
    ...(found.pod ? [] : podGroup(found.podGroup)),
    funnel(found),
    groups(found.groups ?? [], open),
    scores(found, open),
    preemption(found.preemption, open),
    changes(found.changes ?? [], goal(found)),
    eta(found.eta),
    waking(found.wakeEvents ?? []),
    decision(found.decision),
    ...(found.notes ?? []).map((note) => h("p", { class: "muted small" }, note)),
    answered(found.answeredBy),
  ].filter(Boolean);
}

/** What the changes are for; those of a group were tried on nodes alone. */
function goal(found) {
  if (found.pod) return "What would make it fit";
  return `What would let it start${found.admission?.shortages?.length ? " once it has quota" : ""}`;
}

function part(title, ...content) {
  return h("section", { class: "part" }, h("h4", {}, title), ...content);
}

function queue(standing) {
  if (!standing?.queue) return null;
  const words = [`in the ${standing.queue} queue`];
  if (standing.attempts) words.push(`tried ${standing.attempts === 1 ? "once" : `${count(standing.attempts)} times`}`);
  if (standing.backoffLeftSeconds) words.push(`backs off for at most another ${age(standing.backoffLeftSeconds)}`);
  if (standing.ahead) words.push(`${counted(standing.ahead, "pod")} ahead`);
  if (standing.gatingPlugin) words.push(`kept by ${standing.gatingPlugin}`);
  return h("p", {}, `It is ${words.join(", ")}.`);
}

/** What is told of a unit in a ClusterQueue: pure. [[label, text]] */
export function admissionRows(found) {
  const first = found.first?.length ? `: ${found.first.join(", ")}` : "";
  return [
    ...(found.localQueue ? [["Queue", found.localQueue + (found.clusterQueue ? `, ClusterQueue ${found.clusterQueue}` : "")]] : []),
    ...(found.ahead ? [["Ahead", `${count(found.ahead)}, of which ${count(found.aheadAdmissible ?? 0)} would be admitted first${first}`]] : []),
    ...(found.nodes ? [["Nodes", found.nodes]] : []),
    ...(found.changes ?? []).map((change) => ["Would help", change]),
  ];
}

function admission(found) {
  if (!found) return null;
  const rows = admissionRows(found).map(([label, text]) => h("li", {}, h("b", {}, `${label} `), text));
  return part("Admission", h("p", {}, found.sentence), h("ul", { class: "plain" }, ...rows));
}

function attempts(all) {
  if (!all.length) return null;
  const rows = all.slice(-5).reverse().map((one) =>
    h("li", {}, h("span", { class: "muted" }, `${clock(Date.parse(one.time) / 1000)} `), `attempt ${one.number}: ${one.outcome}`, one.plugins?.length ? h("span", { class: "muted" }, ` by ${one.plugins.join(", ")}`) : null));
  return h("details", {}, h("summary", {}, `Attempts (${count(all.at(-1).number ?? all.length)})`), h("ul", { class: "plain" }, ...rows));
}

/** How far a group is that was asked about by itself, and what each topology domain holds of it. */
function podGroup(group) {
  const { domains = [], stuck = [], stuckMembers = 0, allDomains = 0 } = group ?? {};
  const numbers = ["nodes", "holds", "lacks"];
  const rows = domains.map((domain) => h("tr", {}, h("th", { scope: "row" }, domain.name || "all nodes"), ...numbers.map((name) => h("td", { class: "num" }, count(domain[name] ?? 0)))));
  const head = h("tr", {}, h("th", { scope: "col" }, group?.topologyKey || "Domain"), ...numbers.map((name) => h("th", { scope: "col", class: "num" }, name)));
  const alike = Map.groupBy(stuck, (one) => one.message);
  const misfit = domains[0]?.misfit, more = allDomains - domains.length, others = stuckMembers - stuck.length;
  return [
    group?.fits ? h("p", {}, "It would start at its next attempt.") : null,
    rows.length ? part("How many members fit", h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)), more > 0 ? h("p", { class: "muted small" }, `and ${count(more)} more`) : null, misfit?.name ? h("p", { class: "small" }, h("b", {}, misfit.name), ` does not fit${domains[0].name ? ` ${domains[0].name}` : ""}: ${misfit.message}`) : null) : null,
    stuck.length ? part("Fit nowhere by themselves", h("ul", { class: "plain" }, ...[...alike].map(([message, members]) => h("li", {}, h("b", {}, members.map((one) => one.name).join(", ")), h("span", { class: "muted" }, ` ${message}`)))), others > 0 ? h("p", { class: "muted small" }, `and ${count(others)} more`) : null) : null,
  ];
}

function funnel(found) {
  const all = found.nodes ?? 0;
  if (!all || !found.funnel?.length) return null;
  const rows = steps(found).map((step) =>
    h("li", { class: "narrowing" },
      h("span", { class: "num" }, `−${count(step.rejected)}`),
      h("span", { class: "text" }, h("b", {}, step.plugin), h("span", { class: "muted" }, ` ${step.reasons.map(([nodes, reason]) => (step.reasons.length > 1 ? `${count(nodes)} ${reason}` : reason)).join(", ")}`), track(step.after, step.before, all)),
      h("span", { class: "num" }, count(step.after))));
  const fits = found.feasibleNodes ?? 0;
  return part("From all nodes to those that fit",
    h("ol", { class: "narrow", "aria-label": `${count(all)} nodes, of which ${count(fits)} fit` },
      h("li", { class: "narrowing" }, h("span", { class: "num" }), h("span", { class: "text" }, h("b", {}, "All nodes"), track(all, all, all)), h("span", { class: "num" }, count(all))),
      ...rows,
      h("li", { class: "narrowing last" }, h("span", { class: "num" }), h("span", { class: "text" }, h("b", {}, fits ? "Fit" : "None fits")), h("span", { class: "num" }, count(fits)))));
}

/** A bar: what passes, then what is rejected here. */
function track(after, before, all) {
  const passes = h("i", { class: "passes" }), rejected = h("i", { class: "rejected" });
  passes.style.width = `${(after / all) * 100}%`;
  rejected.style.width = `${((before - after) / all) * 100}%`;
  return h("span", { class: "narrow-track", "aria-hidden": "true" }, passes, rejected);
}

function groups(all, open) {
  if (!all.length) return null;
  const rows = all.slice(0, MOST_GROUPS).map((group) =>
    h("li", {}, h("b", {}, `${count(group.nodes ?? 0)} `), (group.reasons ?? []).join(", ") || group.plugin, ...(group.shortfalls ?? []).map((one) => shortfall(one, open)), h("span", { class: "muted" }, group.examples?.length ? ` · ${group.examples.slice(0, 3).join(", ")}${(group.nodes ?? 0) > 3 ? " …" : ""}` : "")));
  const more = all.length - rows.length;
  return part("By how much they miss", h("ul", { class: "plain" }, ...rows), more > 0 ? h("p", { class: "muted small" }, `and ${counted(more, "more group")}`) : null);
}

function shortfall(one, open) {
  const least = one.least ?? {}, most = one.most ?? {}, lacks = lacking(least.lacks ?? 0, one.unit);
  const range = least.lacks === most.lacks ? lacks : `${lacks} to ${lacking(most.lacks ?? 0, one.unit)}`;
  return h("span", {}, `: lacks ${one.unit === "flag" ? "" : `${range} `}${one.what}`, least.node ? [", least on ", link(least.node, () => open("node", least.node))] : null);
}

function scores(found, open) {
  const all = found.scores ?? [];
  if (!all.length) return null;
  const plugins = [...new Set(all.flatMap((score) => (score.plugins ?? []).map((one) => one.plugin)))];
  const told = plugins.filter((name) => all.some((score) => (score.plugins ?? []).find((one) => one.plugin === name)?.score));
  const head = ["Node", "Total", ...told].map((text, index) => h("th", { scope: "col", class: index ? "num" : null, title: text }, text.length > 14 ? `${text.slice(0, 13)}…` : text));
  const rows = all.slice(0, MOST_SCORES).map((score) =>
    h("tr", {}, h("th", { scope: "row" }, link(score.node, () => open("node", score.node))), h("td", { class: "num" }, h("b", {}, count(Number(score.total ?? 0)))), ...told.map((name) => h("td", { class: "num" }, count(Number((score.plugins ?? []).find((one) => one.plugin === name)?.score ?? 0))))));
  const tied = found.tiedNodes > 1 ? h("p", { class: "muted small" }, `${count(found.tiedNodes)} nodes share the best score; chance decides.`) : null;
  return part("Scores", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" }, h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows))), tied);
}

function preemption(found, open) {
  if (!found) return null;
  const candidates = (found.candidates ?? []).slice(0, 3).map((one) => {
    const victims = (one.victims ?? []).map((pod) => pod.name).slice(0, 4).join(", ");
    return h("li", {}, link(one.node, () => open("node", one.node)), ` by removing ${victims}${one.moreVictims ? ` and ${count(one.moreVictims)} more` : ""}${one.pdbViolations ? `, against the budgets of ${counted(one.pdbViolations, "victim")}` : ""}`);
  });
  const says = found.reason || (found.candidateNodes ? `It can make room on ${counted(found.candidateNodes, "node")}.` : found.eligible ? "It finds no node on which it would help." : "");
  if (!says && !candidates.length) return null;
  return part("Preemption", h("p", {}, says), candidates.length ? h("ul", { class: "plain" }, ...candidates) : null);
}

function changes(all, title) {
  if (!all.length) return null;
  return part(title, h("ul", { class: "plain" }, ...all.map((change) =>
    h("li", {}, change.description, h("span", { class: "muted" }, change.nodes ? ` · then ${count(change.nodes)} ${change.nodes === 1 ? "node fits" : "nodes fit"}` : "")))));
}

function eta(found) {
  const quantiles = found?.quantiles ?? [];
  if (!quantiles.length) return null;
  return part("When it will run", h("p", {}, quantiles.map((one) => one.seconds >= NEVER ? `fewer than ${percent(one.probability)} of pods like it ever` : `${percent(one.probability)} within ${age(one.seconds ?? 0)}`).join(", ")), h("p", { class: "muted small" }, (found.basis ?? []).join(" ")));
}

function waking(events) {
  if (!events.length) return null;
  return h("details", {}, h("summary", {}, `What can wake it (${events.length})`), h("ul", { class: "plain" }, ...events.map((one) => h("li", {}, h("b", {}, one.event), h("span", { class: "muted" }, ` ${(one.plugins ?? []).join(", ")}`)))));
}

function decision(found) {
  if (!found?.nodeName) return null;
  const when = found.time ? ` at ${clock(Date.parse(found.time) / 1000)}` : "";
  const by = found.replica ? `, by ${found.replica}${found.term ? ` in term ${found.term}` : ""}${when}` : when;
  const others = found.podsBetweenCount ?? 0;
  const between = others ? ` ${others > 0 ? counted(others, "other pod") : "Very many other pods"} got a node while it waited.` : "";
  return part("The decision", h("p", {}, `${found.nodeName} of ${counted(found.feasibleNodes ?? 0, "node")} that fit${by}.${between}`));
}

function answered(by) {
  if (!by) return null;
  const who = by.replica ? `${by.replica}${by.leading ? `, which leads${by.term ? ` in term ${by.term}` : ""}` : ", a standby"}` : "";
  return h("p", { class: "muted small" }, `Answered by ${who || "this process"} in ${(by.tookMs ?? 0).toFixed(1)} ms.`);
}
