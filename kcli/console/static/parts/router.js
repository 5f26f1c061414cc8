// Addresses of pages: #/CLUSTER/PATH?PARAMETERS. The part after # never reaches a server, so every base path works.

/** "#/main/topics/a%2Fb?tab=x" becomes {cluster: "main", parts: ["topics", "a/b"], query: {tab: "x"}} */
export function parse(hash) {
  const [where, search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = where.split("/").filter(Boolean).map(decode);
  return { cluster: parts[0] ?? "", parts: parts.slice(1), query: Object.fromEntries(new URLSearchParams(search)) };
}

/** The address of a page: href("main", ["topics", "a/b"], {tab: "x"}) */
export function href(cluster, parts, query) {
  const search = new URLSearchParams(
    Object.entries(query ?? {}).filter(([, value]) => value !== "" && value !== null && value !== undefined),
  ).toString();
  return `#/${[cluster, ...parts].map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/**
 * Finds the page of these parts. A page has `path`, such as "topics/:topic/*". Returns {page, params}.
 * `*` at the end takes the rest, which may be empty: params.rest is an array.
 */
export function match(pages, parts) {
  for (const page of pages) {
    const params = matches(page.path.split("/").filter(Boolean), parts);
    if (params !== null) return { page, params };
  }
  return null;
}

function matches(pattern, parts) {
  const takesRest = pattern.at(-1) === "*";
  const names = takesRest ? pattern.slice(0, -1) : pattern;
  if (parts.length < names.length || (!takesRest && parts.length > names.length)) return null;
  const params = {};
  for (const [index, name] of names.entries()) {
    if (name.startsWith(":")) params[name.slice(1)] = parts[index];
    else if (name !== parts[index]) return null;
  }
  if (takesRest) params.rest = parts.slice(names.length);
  return params;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
