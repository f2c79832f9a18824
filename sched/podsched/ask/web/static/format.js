// Numbers, amounts and times as people read them.

export const count = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** A number and its noun, in the plural unless the number is 1. */
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** A share in percent, never rounded to a bound that it has not reached: 99.7 % is no 100 %. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 0 && value < 1) return "<1 %";
  if (value > 99 && value < 100) return "99 %";
  return `${Math.round(value)} %`;
}

/** A rate or another number that may be small. */
export function rate(number) {
  if (number >= 100) return count(Math.round(number));
  return number >= 10 ? number.toFixed(0) : number.toFixed(1).replace(/\.0$/, "");
}

/** A duration in milliseconds. */
export function milliseconds(value) {
  if (value >= 120000) return `${rate(value / 60000)} min`;
  if (value >= 1000) return `${rate(value / 1000)} s`;
  return value >= 10 ? `${Math.round(value)} ms` : `${Number(value.toPrecision(2))} ms`;
}

/** Millicores as cores, exactly. */
function cores(value) {
  const [whole, part] = (value / 1000).toFixed(3).split(".");
  return `${count(Number(whole))}.${part}`.replace(/\.?0+$/, "");
}

/** An amount of a resource: cpu in millicores, bytes in MiB, others as they are. */
export function amount(resource, value) {
  if (resource === "cpu") return value < 1000 && value > 0 ? `${value}m` : cores(value);
  if (resource !== "memory" && resource !== "ephemeral-storage" && !resource.startsWith("hugepages-")) return count(value);
  if (value >= 1024 * 1024) return `${rate(value / 1024 / 1024)} TiB`;
  return value >= 1024 ? `${rate(value / 1024)} GiB` : `${value} MiB`;
}

/** An age as kubectl prints it. */
export function age(seconds) {
  const value = Math.max(0, Math.floor(seconds));
  if (value < 120) return `${value}s`;
  if (value < 7200) return `${Math.floor(value / 60)}m`;
  if (value < 172800) return `${Math.floor(value / 3600)}h`;
  return `${Math.floor(value / 86400)}d`;
}

export function bytes(value) {
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${(value / 1000).toFixed(1)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}

/** A time of day. */
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

/** A replica's name without the random part of its identity. */
export const nameOf = (identity) => identity.replace(/_[0-9a-f]{8}$/, "");

/** Order names so that node-2 comes before node-10. */
export function natural(one, other) {
  const left = one.match(/\d+|\D+/g) ?? [], right = other.match(/\d+|\D+/g) ?? [];
  for (let index = 0; index < left.length && index < right.length; index++) {
    const [a, b] = [left[index], right[index]];
    const numbers = Number(a) - Number(b); // NaN where one is no number
    if (a !== b) return numbers || (a < b ? -1 : 1);
  }
  return left.length - right.length;
}

/**
 * Return [available, all, [[count, reason], ...]] of a message such as
 * "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint(s). preemption: ..."; null for another.
 */
export function unavailable(message) {
  const found = /^(\d+)\/(\d+) nodes are available: (.*)$/s.exec(message);
  if (!found) return null;
  const [text] = found[3].split(/\. (?=[^.]*preemption: |$)/);
  const reasons = [];
  for (const part of text.replace(/\.$/, "").split(/, (?=\d+ )/)) {
    const reason = /^(\d+) (.+)$/s.exec(part);
    if (reason) reasons.push([Number(reason[1]), reason[2]]);
  }
  return [Number(found[1]), Number(found[2]), reasons.sort((one, other) => other[0] - one[0])];
}
