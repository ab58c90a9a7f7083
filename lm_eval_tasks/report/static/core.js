// Small helpers. All text of runs goes through textContent; nothing here parses HTML.
const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
};

// Text of unknown direction, kept from reordering what stands around it.
const said = (tag, text, css) => el(tag, { dir: "auto", class: css, text });

const readJson = (id) => {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent) : null;
};

const score = (value) => (value === null || value === undefined ? "–" : String(Math.round(value * 100) / 100));
const signed = (value) => (value > 0 ? "+" : "") + score(value).replace("-", "−");
const count = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");

const debounce = (handler, delay) => {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => handler(...args), delay);
  };
};

// Clips stored in the page are parsed when the first one is asked for.
let clips = null;
const clipSource = (source) => {
  if (!source.startsWith("#")) return source;
  clips ??= readJson("data-clips") ?? {};
  return clips[source.slice(1)] ?? "";
};

const player = (source, reason) => {
  if (!source) return el("p", { class: "no-clip", text: `No player: ${reason}.` });
  const note = el("p", { class: "no-clip", hidden: true, text: "The browser can't play this clip from where the report lies." });
  const audio = el("audio", { controls: true, preload: "metadata", src: clipSource(source) });
  audio.addEventListener("error", () => { note.hidden = false; });
  return el("div", { class: "clip" }, audio, note);
};

const themes = ["auto", "light", "dark"];
const setTheme = (theme) => {
  const root = document.documentElement;
  if (theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[theme];
  button.setAttribute("aria-label", `Colours: ${theme}. Change`);
  button.dataset.now = theme;
  try { localStorage.setItem("report-theme", theme); } catch { /* storage may be off for files */ }
};

const startTheme = () => {
  let stored = null;
  try { stored = localStorage.getItem("report-theme"); } catch { /* as above */ }
  setTheme(themes.includes(stored) ? stored : "auto");
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => setTheme(themes[(themes.indexOf(button.dataset.now) + 1) % themes.length]));
};
