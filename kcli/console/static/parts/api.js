// Requests to the console. Addresses are relative, so a base path needs no setting.

import { hearAnswer, hearConsole } from "./contact.js";

let csrf = "";
let onLoginNeeded = () => {};

export class ApiError extends Error {
  constructor(name, message, status) {
    super(message);
    this.name = name;
    this.status = status;
  }

  /** Whether the same request may succeed later: the console or the cluster did not answer. */
  get isPassing() {
    return this.status === 0 || this.status >= 502;
  }
}

/** Reads the session: {csrf, read_only, clusters}. */
export async function loadSession() {
  return remember(await request("api/session"));
}

export const logIn = async (fields) => remember(await send("api/session/login", fields));
export const logOut = async (cluster) => remember(await send("api/session/logout", { cluster }));

/** Calls `callback(cluster)` if a request finds that its login has ended. */
export function whenLoginNeeded(callback) {
  onLoginNeeded = callback;
}

/** The API of one cluster. */
export function clusterApi(cluster) {
  const base = `api/clusters/${encodeURIComponent(cluster)}`;
  const watched = async (promise) => {
    try {
      return await promise;
    } catch (error) {
      if (error.name === "LOGIN_NEEDED") onLoginNeeded(cluster);
      throw error;
    }
  };
  return {
    /** GET, with parameters and an AbortSignal. Example: get("/topics", {search: "a"}, context.signal) */
    get: async (path, parameters, signal) => {
      const found = await watched(request(address(base, path, parameters), { signal }));
      hearAnswer(found);
      return found;
    },
    /** POST of an action. With {preview: true} nothing changes. */
    post: (path, body) => watched(send(base + path, body)),
    /** The address of a stream or of a download. */
    address: (path, parameters) => address(base, path, parameters),
    /**
     * Server-sent events. `handlers` has a function for each event: message, progress, dropped, done, error.
     * The stream ends with `done`, `error`, the signal, or `close()` of what is returned.
     */
    events(path, parameters, handlers, signal) {
      const source = new EventSource(address(base, path, parameters));
      const close = () => source.close();
      for (const [name, handler] of Object.entries(handlers)) {
        if (name === "error") continue;
        source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
      }
      source.addEventListener("done", close);
      source.addEventListener("error", (event) => {
        close();
        // An event of the server has data. An event of the browser has none: the connection has ended.
        handlers.error?.(
          event.data ? JSON.parse(event.data) : { error: "CONNECTION", message: "The connection to the console has ended." },
        );
      });
      signal?.addEventListener("abort", close);
      return { close };
    },
  };
}

/** A path with encoded parts: path`/topics/${name}/configs` */
export function path(texts, ...values) {
  return texts.reduce((all, text, index) => all + encodeURIComponent(values[index - 1]) + text);
}

function address(base, path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return base + path + (text ? `?${text}` : "");
}

function remember(session) {
  csrf = session.csrf;
  return session;
}

async function send(path, body) {
  const options = {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Kcli-Csrf": csrf },
    body: JSON.stringify(body ?? {}),
  };
  try {
    return await request(path, options);
  } catch (error) {
    if (error.name !== "CSRF") throw error;
    // The session has ended, or the console was started again. A new session has a new token.
    await loadSession();
    options.headers["X-Kcli-Csrf"] = csrf;
    return request(path, options);
  }
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const failed = new ApiError("CONNECTION", "The console does not answer. Does it still run?", 0);
    hearConsole(failed);
    throw failed;
  }
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  const content = isJson ? await response.json() : { error: "HTTP", message: (await response.text()).slice(0, 300) };
  if (!response.ok) throw new ApiError(content.error, content.message, response.status);
  return content;
}
