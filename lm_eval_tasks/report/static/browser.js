// A list of docs with filters and a detail pane. Only the rows in view have DOM nodes, so thousands of docs stay quick.
const ROW = 68;

class Browser {
  // view: { docs, runs, filters, sorts, haystack(doc), row(doc, run), detail(doc) }
  constructor(root, view) {
    this.root = root;
    this.view = view;
    this.run = 0;
    this.shown = view.docs;
    this.current = null;
    this.values = {};
    this.part = (name) => root.querySelector(`[data-part="${name}"]`);
    this.list = this.part("list");
    this.space = el("div", { class: "space" });
    this.list.append(this.space);
    this.controls();
    this.list.addEventListener("scroll", () => this.paint(), { passive: true });
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.part("back").addEventListener("click", () => this.close());
    new ResizeObserver(() => this.paint()).observe(this.list);
    this.apply();
  }

  controls() {
    const form = this.part("controls");
    const search = el("input", { type: "search", placeholder: "Search all text…", "aria-label": "Search text" });
    search.addEventListener("input", debounce(() => this.set("search", search.value), 60));
    form.append(el("label", { class: "search" }, search));
    const select = (name, label, options) => {
      const node = el("select", { "aria-label": label, "data-filter": name });
      node.append(...options.map(([value, text]) => el("option", { value, text })));
      node.addEventListener("change", () => this.set(name, node.value));
      form.append(el("label", {}, el("span", { text: label }), node));
      return node;
    };
    const runs = this.view.runs;
    if (runs.length > 1) select("run", "Filter by the answers of", runs.map((run, index) => [index, run.label]));
    for (const filter of this.view.filters) {
      if (filter.options.length > 1) select(filter.name, filter.label, [["", "all"], ...filter.options]);
    }
    select("sort", "Order", this.view.sorts.map((sort, index) => [index, sort.label]));
    const reset = el("button", { type: "button", class: "quiet", text: "Reset" });
    reset.addEventListener("click", () => {
      search.value = "";
      for (const node of form.querySelectorAll("select")) node.selectedIndex = 0;
      this.values = {};
      this.apply();
    });
    form.append(reset);
    form.addEventListener("submit", (event) => event.preventDefault());
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
      const keyed = this.shown.map((doc) => [sort.key(doc, doc.x[this.run]), doc]).filter(([key]) => key !== null);
      const rest = this.shown.filter((doc) => sort.key(doc, doc.x[this.run]) === null);
      keyed.sort((a, b) => (a[0] - b[0]) * sort.way);
      this.shown = keyed.map(([, doc]) => doc).concat(rest);
    }
    this.list.scrollTop = 0;
    this.paint(true);
    this.part("count").textContent = `${count(this.shown.length)} of ${count(docs.length)} samples`;
    this.part("empty").hidden = this.shown.length > 0;
    this.root.dataset.ms = String(performance.now() - started);
    this.root.dataset.shown = String(this.shown.length);
  }

  paint(fresh = false) {
    const height = this.list.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 4);
    const last = Math.min(this.shown.length, Math.ceil((this.list.scrollTop + height) / ROW) + 4);
    if (!fresh && this.first === first && this.last === last) return;
    Object.assign(this, { first, last });
    this.space.style.height = `${this.shown.length * ROW}px`;
    this.space.replaceChildren(...this.shown.slice(first, last).map((doc, offset) => this.row(doc, first + offset)));
  }

  row(doc, index) {
    const chosen = doc === this.current;
    const row = el("div", {
      class: "row",
      role: "option",
      id: `${this.root.id}-${doc.k}`,
      "aria-selected": String(chosen),
      "aria-setsize": this.shown.length,
      "aria-posinset": index + 1,
      on: { click: () => this.open(doc) },
    });
    row.style.top = `${index * ROW}px`;
    row.append(...this.view.row(doc, this.run));
    return row;
  }

  open(doc, focus = true) {
    this.current = doc;
    const pane = this.part("detail");
    pane.replaceChildren(...this.view.detail(doc));
    this.root.classList.add("open");
    this.part("pane").scrollTop = 0;
    this.list.setAttribute("aria-activedescendant", `${this.root.id}-${doc.k}`);
    this.paint(true);
    if (focus && matchMedia("(max-width: 760px)").matches) {
      document.body.classList.add("sheet");
      this.part("back").focus();
    }
  }

  close() {
    this.root.classList.remove("open");
    document.body.classList.remove("sheet");
    for (const audio of this.root.querySelectorAll("audio")) audio.pause();
    this.list.focus();
  }

  // Shows a doc that another part of the page links to, whatever is filtered now.
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

  key(event) {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 8, PageUp: -8, Home: -1e9, End: 1e9 }[event.key];
    if (step === undefined || !this.shown.length || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const at = this.shown.indexOf(this.current);
    const next = Math.min(this.shown.length - 1, Math.max(0, at + step));
    this.scrollTo(next);
    this.open(this.shown[next], false);
  }
}
