// Dark or light: as the system says, unless the user has chosen. The choice stays in this browser.

const KEY = "kcli-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function apply() {
  document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
}

export const isDark = () => document.documentElement.dataset.theme === "dark";

export function toggle() {
  const next = isDark() ? "light" : "dark";
  try {
    if ((next === "dark") === system.matches) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // Without storage, the choice lasts until the page is loaded again.
  }
  document.documentElement.dataset.theme = next;
}

system.addEventListener("change", apply);
apply();
