// The login to a cluster, with a user of the cluster itself.
import { h } from "./dom.js";
import { logIn } from "./api.js";
import { form } from "./form.js";

/** The login page of a cluster. `done(session)` is called after the login. */
export function loginCard(cluster, done) {
  const fields = form([
    { name: "username", label: "User", required: true, autocomplete: "username" },
    { name: "password", label: "Password", type: "password", required: true, autocomplete: "current-password" },
    { name: "mechanism", label: "Mechanism", options: cluster.mechanisms, value: cluster.mechanisms[0] },
  ]);
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const button = h("button", { class: "primary", onclick: () => fields.element.requestSubmit() }, "Log in");
  fields.element.addEventListener("submit", async () => {
    if (!fields.check()) return;
    problem.hidden = true;
    button.disabled = true;
    try {
      done(await logIn({ cluster: cluster.name, ...fields.values() }));
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      fields.input("password").value = "";
      fields.input("password").focus();
    } finally {
      button.disabled = false;
    }
  });
  queueMicrotask(() => fields.input("username").focus());
  return h(
    "div", { class: "login" },
    h(
      "section", { class: "card", "aria-label": "Log in" },
      h("h1", null, `Log in to ${cluster.name}`),
      h("p", { class: "muted" }, "Use your name and password of the Kafka cluster. The console acts with your permissions only."),
      fields.element, problem, button,
    ),
  );
}
