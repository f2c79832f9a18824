// From the server to the store: a state, then server-sent events; again and again until it works.
// fetch instead of EventSource, which cannot send a token.

const FIRST_PAUSE = 500, LONGEST_PAUSE = 15000;
/** Milliseconds without a byte after which a connection counts as dead; the server says something every 10 s. */
const DEAD = 25000;

/** Why the server does not answer as wanted. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Server {
  #token = "";

  set token(token) {
    this.#token = token;
  }

  async fetch(path, options = {}) {
    const headers = { ...options.headers };
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    const response = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options, headers });
    if (!response.ok) throw new Refused(response.status, await messageOf(response));
    return response;
  }

  /** Read JSON. Throws Refused, or TypeError when the server cannot be reached. */
  async json(path, options) {
    return (await this.fetch(path, options)).json();
  }

  /** Do something: cordon, uncordon or delete. */
  act(verb, name) {
    const path = name.split("/").map(encodeURIComponent).join("/");
    return this.json(`/api/do/${verb}/${path}`, { method: "POST", headers: { "X-Podsched-Page": "1" } });
  }
}

async function messageOf(response) {
  try {
    return (await response.json()).message || response.statusText;
  } catch {
    return response.statusText || `status ${response.status}`;
  }
}

/** One event of a stream: its text is complete. Returns {event, id, data}. */
export function parseEvent(text) {
  const found = { event: "message", id: "", data: "" };
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) found[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  return found;
}

/**
 * Follow the server until told otherwise.
 * on: {state(state), delta(delta, bytes), link(state, why), refused(error)}; refused ends it until `follow` is called anew.
 */
export async function follow(server, on) {
  let pause = FIRST_PAUSE, id = "";
  for (;;) {
    try {
      if (!id) {
        on.link("loading");
        const text = await (await server.fetch("/api/state")).text();
        const state = JSON.parse(text);
        id = state.id;
        on.state(state, text.length);
      }
      for await (const [event, size] of events(server, id)) {
        pause = FIRST_PAUSE;
        on.link("live");
        if (!event) continue;
        if (event.event === "reset") {
          id = "";
          break;
        }
        id = event.id;
        on.delta(JSON.parse(event.data), size);
      }
      if (!id) continue;
      on.link("waiting", "the stream ended");
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        on.link("refused");
        return on.refused(error);
      }
      on.link("waiting", error instanceof TypeError ? "the server cannot be reached" : error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random())));
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

/** Yield [event, bytes]; null for a sign of life. Ends when the connection does. */
async function* events(server, id) {
  const ending = new AbortController();
  let timer = setTimeout(() => ending.abort(new Error("the server is silent")), DEAD);
  try {
    const response = await server.fetch(`/api/stream?after=${encodeURIComponent(id)}`, { signal: ending.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => ending.abort(new Error("the server is silent")), DEAD);
      text += value;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const one = text.slice(0, end);
        yield one.startsWith(":") ? [null, 0] : [parseEvent(one), end + 2];
      }
    }
  } finally {
    clearTimeout(timer);
    ending.abort();
  }
}
