// What the browser knows: a state, kept current by deltas. No DOM here; a test runs it against the server's board.

const MOST_SAMPLES = 720;

/** Flags of a node's state, as the server has them. */
export const NOT_READY = 1, CORDONED = 2, TAINTED = 4, DELETED = 8, HOLLOW = 16;

export class Store {
  constructor() {
    this.clear();
  }

  clear() {
    this.id = "";
    this.process = {};
    this.resources = [];
    this.zones = [];
    this.shapes = [];
    this.nodes = new Map();
    this.byName = new Map();
    this.lists = { pending: new Map(), events: new Map(), decisions: new Map() };
    this.totals = { nodes: 0, usable: 0, bound: 0, pending: 0, lines: 0, ended: 0 };
    this.groups = [];
    this.leadership = { lock: "", leader: "", since: 0, transitions: 0, paused: "", replicas: [] };
    this.terms = [];
    this.samples = [];
    this.clockAhead = 0;
    this.nodesVersion = 0; // counts changes of which nodes there are, or of what they are
  }

  /** Take over a whole state. */
  load(state) {
    this.clear();
    this.id = state.id;
    this.process = state.process;
    this.resources = state.resources;
    for (const [name, rows] of Object.entries(this.lists)) {
      for (const [key, ...row] of state[name]) rows.set(key, row);
    }
    this.#common(state);
  }

  /** Apply a delta; return the names of what it changes. */
  apply(delta) {
    for (const [name, rows] of Object.entries(this.lists)) {
      const change = delta[name];
      if (!change) continue;
      for (const key of change.gone) rows.delete(key);
      for (const [key, ...row] of change.set) rows.set(key, row);
    }
    this.#common(delta);
    return Object.keys(delta);
  }

  #common(from) {
    this.clockAhead = from.time - Date.now() / 1000;
    if (from.zones) this.zones.push(...from.zones);
    if (from.shapes) this.shapes.push(...from.shapes);
    for (const id of from.gone ?? []) this.#forget(id);
    for (const [id, name, zone, shape, state, ...used] of from.nodes ?? []) {
      const node = { id, name, zone, shape, state, used };
      this.nodes.set(id, node);
      this.byName.set(name, node);
    }
    for (const [id, ...used] of from.use ?? []) {
      const node = this.nodes.get(id);
      if (node) node.used = used;
    }
    if (from.nodes || from.gone) this.nodesVersion += 1;
    for (const name of ["totals", "groups", "leadership", "terms"]) {
      if (from[name]) this[name] = from[name];
    }
    if (from.samples) this.samples = [...this.samples, ...from.samples].slice(-MOST_SAMPLES);
  }

  #forget(id) {
    const node = this.nodes.get(id);
    if (!node) return;
    this.nodes.delete(id);
    if (this.byName.get(node.name) === node) this.byName.delete(node.name);
  }

  /** The server's time in Unix seconds. */
  now() {
    return Date.now() / 1000 + this.clockAhead;
  }

  /** How many of the last seconds the charts show: an hour, or less while the process is young. */
  span() {
    const age = this.samples.length ? this.now() - this.samples[0][0] : 0;
    return Math.min(3600, Math.max(300, Math.ceil(age / 60) * 60));
  }

  /** The part of a node's resource (a column) that is taken; NaN where it has none. */
  share(node, column) {
    const has = this.shapes[node.shape][column];
    return has ? (node.used[column] ?? 0) / has : NaN;
  }

  /** What all nodes have and what is taken of it, by column. */
  sums() {
    const has = this.resources.map(() => 0), used = this.resources.map(() => 0);
    for (const node of this.nodes.values()) {
      const shape = this.shapes[node.shape];
      for (let column = 0; column < has.length; column++) {
        has[column] += shape[column] ?? 0;
        used[column] += node.used[column] ?? 0;
      }
    }
    return { has, used };
  }

  /** The number of nodes whose state has a flag. */
  having(flag) {
    let found = 0;
    for (const node of this.nodes.values()) found += node.state & flag ? 1 : 0;
    return found;
  }

  /** The rows of a list in its order: pending by priority and age, the others the latest first. */
  rows(name) {
    const rows = [...this.lists[name]].map(([key, row]) => [key, ...row]);
    if (name === "pending") return rows.sort((a, b) => b[4] - a[4] || a[1] - b[1] || (a[0] < b[0] ? -1 : 1));
    return rows.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? 1 : -1));
  }
}
