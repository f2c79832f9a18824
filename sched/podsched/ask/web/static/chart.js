// Lines over the last hour, in SVG. Series differ by dash and label, not by colour alone.

import { h, s, setText } from "./dom.js";
import { clock, rate } from "./format.js";

const HEIGHT = 132, LEFT = 52, RIGHT = 8, TOP = 8, BOTTOM = 18;

/** Return a round upper bound and its ticks for values up to `most`. */
export function linearTicks(most) {
  const raw = Math.max(most, 1e-9) / 2;
  const power = 10 ** Math.floor(Math.log10(raw));
  const unit = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const top = Math.max(unit * 2, most > 0 ? unit * Math.ceil(most / unit) : 2);
  return { low: 0, high: most > 0 ? top : 2, ticks: most > 0 ? [0, top / 2, top] : [0, 1, 2] };
}

/** Return bounds that are powers of ten, and ticks, for positive values. */
export function logTicks(least, most) {
  const low = Math.floor(Math.log10(Math.max(least, 0.01)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(most, 0.1))));
  const every = Math.ceil((high - low) / 3);
  const ticks = [];
  for (let power = low; power <= high; power += every) ticks.push(10 ** power);
  return { low: 10 ** low, high: 10 ** high, ticks };
}

/** Return the path of points [[x, y] or null]; null lifts the pen. */
export function path(points) {
  let text = "", down = false;
  for (const point of points) {
    if (point) text += `${down ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    down = point !== null;
  }
  return text;
}

export class Chart {
  /** series: [{label, column, dash}]: columns of a sample; format: of values; log: the axis; none: what a chart without values says. */
  constructor(figure, title, series, format, { log = false, unit = "", none = "" } = {}) {
    this.series = series;
    this.format = format;
    this.log = log;
    this.none = none;
    this.figure = figure;
    this.values = series.map(() => h("b", {}, "–"));
    this.svg = s("svg", { "aria-hidden": "true", height: HEIGHT });
    this.when = h("span", { class: "muted when" });
    const legend = series.map((one, index) =>
      h("li", {}, s("svg", { class: "key", width: 22, height: 8, "aria-hidden": "true" }, s("path", { d: "M1 4H21", class: `line ${one.style}` })), ` ${one.label} `, this.values[index]));
    figure.replaceChildren(h("figcaption", { class: "bar" }, h("h2", {}, title, unit ? h("small", { class: "muted" }, ` ${unit}`) : null), this.when), this.svg, h("ul", { class: "legend" }, ...legend));
    this.svg.addEventListener("pointermove", (event) => this.#hover(event));
    this.svg.addEventListener("pointerleave", () => this.#hover(null));
    this.hovered = null;
  }

  /** width: of the figure, read by the caller for all charts before any is drawn: each read lays the page out. */
  draw(store, width) {
    const now = store.now(), span = store.span();
    const samples = store.samples.filter((sample) => sample[0] > now - span);
    const x = (at) => LEFT + ((at - now + span) / span) * (width - LEFT - RIGHT);
    this.last = { x, samples };
    const all = samples.flatMap((sample) => this.series.map((one) => sample[one.column] ?? 0));
    const positive = all.filter((value) => value > 0);
    const most = Math.max(0, ...all);
    const scale = this.log ? logTicks(Math.min(...positive, most || 1), most) : linearTicks(most);
    const part = this.log
      ? (value) => (Math.log10(Math.max(value, scale.low)) - Math.log10(scale.low)) / (Math.log10(scale.high) - Math.log10(scale.low))
      : (value) => (value - scale.low) / (scale.high - scale.low);
    const y = (value) => HEIGHT - BOTTOM - part(value) * (HEIGHT - TOP - BOTTOM);
    const parts = [];
    for (const tick of scale.ticks) {
      parts.push(s("path", { class: "grid", d: `M${LEFT} ${y(tick)}H${width - RIGHT}` }));
      parts.push(s("text", { class: "tick", x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, this.format(tick)));
    }
    for (const [seconds, anchor] of [[span, "start"], [span / 2, "middle"], [0, "end"]]) {
      parts.push(s("text", { class: "tick", x: x(now - seconds), y: HEIGHT - 3, "text-anchor": anchor }, seconds ? `−${rate(seconds / 60)} min` : "now"));
    }
    for (const one of this.series) {
      const points = samples.map((sample) => {
        const value = sample[one.column];
        return value === undefined || (this.log && value <= 0) ? null : [x(sample[0]), y(value)];
      });
      parts.push(s("path", { class: `line ${one.style}`, d: path(points) }));
      const lone = points.filter((point, index) => point && !points[index - 1] && !points[index + 1]);
      parts.push(...lone.map(([cx, cy]) => s("circle", { class: `dot ${one.style}`, cx, cy, r: 1.5 })));
    }
    if (this.none && !positive.length) parts.push(s("text", { class: "tick", x: (LEFT + width - RIGHT) / 2, y: HEIGHT / 2, "text-anchor": "middle" }, this.none));
    this.cross = s("path", { class: "cross" });
    parts.push(this.cross);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("width", width);
    this.svg.replaceChildren(...parts);
    this.#show();
  }

  #hover(event) {
    this.hovered = event ? event.offsetX : null;
    this.#show();
  }

  /** Show the values under the pointer, or the latest. */
  #show() {
    if (!this.last) return;
    const { x, samples } = this.last;
    let sample = samples.at(-1);
    if (this.hovered !== null && samples.length) {
      sample = samples.reduce((best, one) => (Math.abs(x(one[0]) - this.hovered) < Math.abs(x(best[0]) - this.hovered) ? one : best));
      this.cross.setAttribute("d", `M${x(sample[0]).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`);
    } else this.cross?.setAttribute("d", "");
    setText(this.when, this.hovered !== null && sample ? clock(sample[0]) : "");
    this.series.forEach((one, index) => {
      const value = sample?.[one.column];
      setText(this.values[index], value === undefined || (this.log && value <= 0) ? "–" : this.format(value));
    });
  }
}
