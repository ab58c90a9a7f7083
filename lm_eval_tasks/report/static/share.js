// What leaves the page: tables to the clipboard, charts to files, the whole to paper; and its language and colours.
const PAINT = ["fill", "stroke", "stroke-width", "stroke-linecap", "font-size", "font-family", "font-weight", "text-anchor"];

const save = (blob, name) => {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

// A chart that stands alone: in the light colours, whatever the page shows, on white.
const standalone = (chart) => {
  const root = document.documentElement, theme = root.dataset.theme;
  root.dataset.theme = "light";
  const copy = chart.cloneNode(true), marks = chart.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((node, index) => {
    const style = getComputedStyle(marks[index]);
    for (const name of PAINT) node.style.setProperty(name, style.getPropertyValue(name));
  });
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  const { width, height } = chart.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.querySelector("title").insertAdjacentElement("afterend",
    Object.assign(document.createElementNS(copy.namespaceURI, "rect"), { id: "paper" }));
  const paper = copy.querySelector("#paper");
  for (const [name, value] of Object.entries({ width, height, style: "fill: #fff" })) paper.setAttribute(name, value);
  return [new XMLSerializer().serializeToString(copy), width, height];
};

const saveChart = (chart, kind) => {
  const [text, width, height] = standalone(chart);
  const name = `${chart.querySelector("title").textContent.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60)}.${kind.toLowerCase()}`;
  if (kind === "SVG") return save(new Blob([text], { type: "image/svg+xml" }), name);
  const image = new Image();
  image.onload = () => {
    const canvas = el("canvas", { width: 3 * width, height: 3 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 3 * width, 3 * height);
    canvas.toBlob((blob) => save(blob, name), "image/png");
  };
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
};

const copyText = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not every browser gives a file the clipboard
    const field = el("textarea", { text });
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
};

const startTools = () => {
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;
  document.getElementById("page").onclick = async ({ target }) => {
    const { copy, save: kind } = target.dataset ?? {};
    if (copy) {
      await copyText(JSON.parse(target.closest(".under").querySelector("script").textContent)[copy]);
      target.textContent = "✓";
      setTimeout(() => { target.textContent = copy; }, 1200);
    }
    const charts = kind ? [...target.closest("figure").querySelectorAll("svg.chart")] : [];
    if (charts.length) saveChart(charts.find((chart) => !chart.classList.contains("narrow")), kind);
  };
};

// On paper every folded table is open; what was folded is folded again.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("main details:not([open])")].filter((node) => !node.closest(".browser"));
  for (const node of unfolded) node.open = true;
});
addEventListener("afterprint", () => { for (const node of unfolded) node.open = false; });

const themes = ["auto", "light", "dark"];
const setTheme = (theme) => {
  const root = document.documentElement, button = document.getElementById("theme");
  if (theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme;
  button.textContent = { auto: `◐ ${T("Auto")}`, light: `☀ ${T("Light")}`, dark: `☾ ${T("Dark")}` }[theme];
  button.title = T("Colours");
  button.dataset.now = theme;
  remember("report-theme", theme);
};

const startTheme = () => {
  const stored = remember("report-theme"), button = document.getElementById("theme");
  setTheme(themes.includes(stored) ? stored : "auto");
  button.hidden = false;
  button.onclick = () => setTheme(themes[(themes.indexOf(button.dataset.now) + 1) % themes.length]);
};

// The other language waits in a template; what is shown takes its place there.
const setLanguage = (language) => {
  const page = document.getElementById("page"), template = document.querySelector(`template[data-language="${language}"]`);
  if (!template) return;
  const shown = [...page.childNodes];
  page.replaceChildren(template.content);
  template.content.append(...shown);
  template.dataset.language = document.documentElement.lang;
  document.documentElement.lang = language;
};
