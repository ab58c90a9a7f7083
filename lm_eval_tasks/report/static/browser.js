// A list of docs with filters and a detail pane. Only the rows in view have DOM nodes, so thousands of docs stay quick.
const ROW = 68;

class Browser {
  // view: { docs, runs, filters, sorts, haystack(doc), row(doc, run), detail(doc), summary(docs) }
  constructor(root, name, view) {
    Object.assign(this, { root, name, view, run: 0, shown: view.docs, current: null, values: {} });
    this.part = (part) => root.querySelector(`[data-part="${part}"]`);
    this.list = this.part("list");
    this.space = el("div", { class: "space" });
    this.list.replaceChildren(this.space);
    this.part("controls").replaceChildren();
    this.controls();
    this.list.onscroll = () => this.paint();
    root.onkeydown = (event) => this.key(event);
    this.part("back").onclick = () => this.close();
    this.part("previous").onclick = () => this.walk(-1);
    this.part("next").onclick = () => this.walk(1);
    new ResizeObserver(() => this.paint()).observe(this.list);
    this.apply();
  }

  controls() {
    const form = this.part("controls");
    const search = el("input", { type: "search", placeholder: T("Search all text…"), "aria-label": T("Search text") });
    search.addEventListener("input", debounce(() => this.set("search", search.value), 60));
    form.append(el("label", { class: "search" }, search));
    const select = (name, label, options) => {
      const node = el("select", { "aria-label": label, "data-filter": name });
      node.append(...options.map(([value, text]) => el("option", { value, text })));
      node.addEventListener("change", () => this.set(name, node.value));
      form.append(el("label", {}, el("span", { text: label }), node));
    };
    const { runs, filters, sorts } = this.view;
    if (runs.length > 1) select("run", T("Filter by answers of"), runs.map((run, index) => [index, run.label]));
    for (const { name, label, options } of filters) {
      if (options.length > 1) select(name, label, [["", T("all")], ...options]);
    }
    select("sort", T("Order"), sorts.map((sort, index) => [index, sort.label]));
    const reset = el("button", { type: "button", class: "quiet", text: T("Reset") });
    reset.addEventListener("click", () => {
      form.reset();
      this.values = {};
      this.apply();
    });
    form.append(reset);
    form.onsubmit = (event) => event.preventDefault();
  }

  set(name, value) {
    this.values[name] = value;
    this.apply();
  }

  apply() {
    const started = performance.now();
    const { docs, filters, sorts, haystack } = this.view;
    this.run = Number(this.values.run ?? 0);
    const words = (this.values.search ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const active = filters.filter((filter) => this.values[filter.name]);
    this.shown = docs.filter((doc) => {
      const answer = doc.x[this.run];
      if (!active.every((filter) => filter.test(doc, answer, this.values[filter.name]))) return false;
      if (!words.length) return true;
      doc.hay ??= haystack(doc).toLowerCase();
      return words.every((word) => doc.hay.includes(word));
    });
    const sort = sorts[Number(this.values.sort ?? 0)];
    if (sort.key) {
      const keyed = this.shown.map((doc) => [sort.key(doc, doc.x[this.run]), doc]);
      const known = keyed.filter(([key]) => key !== null).sort((a, b) => (a[0] - b[0]) * sort.way);
      this.shown = [...known, ...keyed.filter(([key]) => key === null)].map(([, doc]) => doc);
    }
    this.list.scrollTop = 0;
    this.paint(true);
    this.part("count").textContent = T("{n} of {m} samples", { n: count(this.shown.length), m: count(docs.length) });
    this.part("mean").replaceChildren(...this.view.summary(this.shown));
    this.part("empty").hidden = this.shown.length > 0;
    if (!this.shown.includes(this.current)) {
      if (this.shown.length && !narrow()) this.open(this.shown[0], false);
      else this.clear();
    }
    Object.assign(this.root.dataset, { ms: performance.now() - started, shown: this.shown.length });
  }

  paint(fresh = false) {
    const height = this.list.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 4);
    const last = Math.min(this.shown.length, Math.ceil((this.list.scrollTop + height) / ROW) + 4);
    if (!fresh && this.first === first && this.last === last) return;
    Object.assign(this, { first, last });
    this.space.style.height = `${this.shown.length * ROW}px`;
    this.space.replaceChildren(...this.shown.slice(first, last).map((doc, offset) => this.row(doc, first + offset)));
    if (!this.space.querySelector("[aria-selected=true]")) this.list.removeAttribute("aria-activedescendant");
  }

  row(doc, index) {
    const row = el("div", {
      class: "row",
      role: "option",
      id: `${this.root.id}-${doc.k}`,
      "aria-selected": String(doc === this.current),
      "aria-setsize": this.shown.length,
      "aria-posinset": index + 1,
      on: { click: () => this.open(doc) },
    });
    row.style.top = `${index * ROW}px`;
    row.append(...this.view.row(doc));
    return row;
  }

  // Shows a doc; `chosen` where a person chose it, so that the address leads to it.
  open(doc, chosen = true) {
    this.current = doc;
    const at = this.shown.indexOf(doc);
    this.part("previous").disabled = at <= 0;
    this.part("next").disabled = at < 0 || at >= this.shown.length - 1;
    this.part("detail").replaceChildren(...this.view.detail(doc));
    this.part("pane").scrollTop = 0;
    this.paint(true);
    this.list.setAttribute("aria-activedescendant", `${this.root.id}-${doc.k}`);
    if (chosen) this.root.classList.add("open");
    for (const text of this.part("detail").querySelectorAll(".prose, .question.long")) {
      if (text.scrollHeight <= text.clientHeight + 4) continue;
      text.tabIndex = 0; // so that keys can scroll it
      text.after(this.more(text));
    }
    if (!chosen) return;
    history.replaceState(null, "", `#${this.name}-doc-${doc.k}`);
    if (narrow()) {
      document.body.classList.add("sheet");
      this.part("back").focus();
    }
  }

  more(text) {
    const button = el("button", { type: "button", class: "tool more", text: T("Show all") });
    button.addEventListener("click", () => {
      button.textContent = text.classList.toggle("whole") ? T("Show less") : T("Show all");
    });
    return button;
  }

  clear() {
    this.current = null;
    this.part("detail").replaceChildren();
    this.part("previous").disabled = this.part("next").disabled = true;
  }

  close() {
    this.root.classList.remove("open");
    document.body.classList.remove("sheet");
    for (const audio of this.root.querySelectorAll("audio")) audio.pause();
    history.replaceState(null, "", location.pathname + location.search);
    this.list.focus();
  }

  // Shows a doc that another part of the page or an address links to, whatever is filtered now.
  reveal(key) {
    const doc = this.view.docs.find((candidate) => candidate.k === key);
    if (!doc) return false;
    if (!this.shown.includes(doc)) this.part("controls").querySelector("button").click();
    this.scrollTo(this.shown.indexOf(doc));
    this.open(doc);
    return true;
  }

  scrollTo(index) {
    const top = index * ROW;
    const { scrollTop, clientHeight } = this.list;
    if (top < scrollTop) this.list.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.list.scrollTop = top + ROW - clientHeight;
  }

  walk(step) {
    const next = Math.min(this.shown.length - 1, Math.max(0, this.shown.indexOf(this.current) + step));
    this.scrollTo(next);
    this.open(this.shown[next]);
  }

  key(event) {
    if (event.key === "Escape" && this.root.classList.contains("open") && narrow()) return this.close();
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 8, PageUp: -8, Home: -1e9, End: 1e9 }[event.key];
    if (step === undefined || !this.shown.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target !== this.list) return;
    event.preventDefault();
    this.walk(step);
  }
}
