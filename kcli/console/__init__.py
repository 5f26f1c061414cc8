"""The web console: a separate program that serves web pages for one or more clusters.

The console is a normal Kafka client, so it works with every Kafka. By default it listens on 127.0.0.1 only.
docs/console.md is for users. docs/adr/0020 has the reasons for this design.

    identity.py      the user whose permissions a request has
    sessions.py      browsers, their logins, the end of sessions
    access.py        Host header, cookie, CSRF, the connection of a session
    page_handlers.py runs handlers: time limits, audit, errors
    connection.py    the clients of one user to one cluster
    contact.py       which servers of the cluster answer now
    cache.py         answers that are kept for seconds, with their age
    listing.py       search, sort and paging of lists
    pages/           one module for each area, with its routes
    static/          the pages: plain ES modules, no framework, no build step

How to add a page
=================

1. `kcli/console/pages/NAME.py` has the handlers, and at its end the routes:

       ROUTES = (
           Read("/brokers", list_brokers),
           Change("/brokers/{id}/configs", "change broker settings", change_settings),
           Feed("/topics/{topic}/records", read_records),
           Download("/topics/{topic}/download", download_records),
       )

   The paths are relative to /api/clusters/{cluster}. `kcli/console/pages/__init__.py` gets one line. The first
   matching route counts, so a fixed part comes before a part in braces.

   - `Read`: GET. The handler gets a `Call` and returns a value that becomes JSON: dataclasses (objects with
     the names of their fields), dicts, lists, texts, numbers. `call.admin` is the admin client of the user.
     `call.cached(key, load)` keeps an answer for some seconds and knows its age. `call.part`, `call.query` and
     `call.integer` read the URL.
   - A list: `call.listing().rows(answer.value, text=…, columns=…)` searches, sorts and cuts the rows, and returns
     `Rows`. The URL has the parameters `search, sort, order (asc or desc), offset, limit`. The page gets
     `{total, rows}`.
   - Each answer also has `as_of`, `age_ms`, `stale` and `unreachable` (`Call.dated`). The page shows the age of each
     list, card and graph with parts/contact.js (`ageMark`, `freshPart`).
   - `Change`: POST with the header X-Kcli-Csrf. The handler gets an `Action`, sets `action.target` for the
     audit log, checks the body with `action.text`, `number`, `flag`, `texts` and `settings_of`, and returns
     an `Outcome`. If `action.is_preview`, it must not change anything. `action.command("topics", "--delete",
     …)` makes the command line. page_handlers.py does the rest: read-only mode, CSRF, the audit log, the time
     limit, and the removal of old kept answers.
   - `Feed`: GET. The handler gets a `Call` and an `EventStream`, and sends the events message, progress, dropped and
     done with `await stream.send(event, value)`. `send` waits for a slow browser. An exception becomes the event error.
     If the browser goes away, the handler is cancelled.
   - `Download`: GET. The handler returns a `File` with an async iterator of bytes.
   - Errors: raise `KafkaError` as the admin client does, or `bad_request(text)`. The page gets {"error":
     NAME, "message": TEXT} with a status such as 404.
   - For other clients, `call.connection.identity.properties` are the client properties of the user. They contain
     secrets, so never log them. `call.connection.own(name, close)` closes something at the end of the session.
     `call.connection.client()` makes a further admin client, for long requests. This client is also closed at the end
     of the session. `call.shared.get(name, make, close)` keeps something until the console stops.
   - Divide large work into slices with `await asyncio.sleep(0)` between them, because one event loop serves
     all users.

2. `kcli/console/static/pages/NAME.js` exports one page by default:

       export default { name, title, group, icon, key, path: "brokers/*", async render(root, context) { … } };

`group` is a heading of the menu (see pages/index.js); a page without a group is not in the menu. `key` is the second
letter of the keyboard shortcut (g, then this letter). `path` has parts, parameters (:topic) and * for the rest, all
found in `context.params`. `render` appends to `root`. `context` has api, params, query, href(parts, query), go(parts),
setQuery, setTitle, signal (aborted when the user leaves), onLeave(callback), isReadOnly, cluster. `pages/index.js` gets
an import and an entry.

   - Elements come from `h(tag, properties, ...children)` in parts/dom.js only. Texts become text nodes. No HTML
     strings, no inline style or script: the content security policy refuses them, and a test looks for them.
   - parts/table.js: `dataTable` for lists of the server (virtual scrolling), `plainTable` for few rows.
     parts/dialog.js: `actionDialog` for each action (fields, preview, command line). parts/form.js, parts/graph.js
     (`lineGraph`, `usageBar`), parts/page.js (`pageHead`, `tabs`, `tiles`, `card`, `notice`, `every`), parts/format.js
     and parts/toast.js.
   - Buttons of actions are left out if `context.isReadOnly`. Columns marked `low` hide on narrow screens.
   - The server decides all that it can decide. The browser only shows the result.

3. Tests: `tests/unit/console/test_console_NAME.py` calls the routes over HTTP with `rigs.console` against a scripted
   cluster. A test starts a whole broker only if the rule needs a broker. `tests/browser/` walks the pages in Chromium.
"""
