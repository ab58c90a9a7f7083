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
const said = (tag, text, css) => el(tag, { dir: "auto", class: css, text, tabindex: tag === "pre" ? 0 : null });

const readJson = (id) => {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent) : null;
};
const report = readJson("data-report");

// The page's own words, in its language; {names} stand for values.
const T = (english, values = {}) => {
  const words = (document.documentElement.lang === "zh" && report.words[english]) || english;
  return words.replace(/\{(\w+)\}/g, (_, name) => values[name]);
};

const remember = (name, value) => {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch { return null; } // storage may be off for files
};

const hue = (index) => `s${(index % 8) + 1}`;
const score = (value) => (value === null || value === undefined ? "–" : String(Math.round(value * 100) / 100));
const signed = (value) => (value > 0 ? "+" : "") + score(value).replace("-", "−");
const count = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");
const narrow = () => matchMedia("(max-width: 760px)").matches;

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
  if (!source) return el("p", { class: "no-clip", text: T("Audio unavailable: {reason}.", { reason: T(reason) }) });
  const note = el("p", { class: "no-clip", hidden: true, text: T("Audio unavailable here; rebuild with --embed-audio") });
  const audio = el("audio", { controls: true, preload: "metadata", src: clipSource(source) });
  audio.addEventListener("error", () => { note.hidden = false; });
  return el("div", { class: "clip" }, audio, note);
};
