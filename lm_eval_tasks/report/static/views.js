// What the two benchmarks show of a sample.
const swatch = (index) => el("i", { class: `swatch s${(index % 6) + 1}`, "aria-hidden": "true" });
const fact = (name, value) => el("span", { class: "fact" }, el("span", { text: `${name} ` }), said("b", value));
const distinct = (docs, pick) => [...new Set(docs.map(pick))].sort().map((value) => [value, value || "(none)"]);
const flagsOf = (docs) => [...new Set(docs.flatMap((doc) => doc.x.flatMap((answer) => answer?.fl ?? [])))].sort();
const outcome = (answer) => {
  if (!answer) return "absent";
  if (!answer.j || answer.sc === null) return "unjudged";
  return answer.sc > answer.rf ? "win" : answer.sc === answer.rf ? "tie" : "loss";
};

const heading = (label) => el("h4", { text: label });

const tags = (answer) => answer.fl.map((flag) => said("span", flag, "tag flag"));

const verdict = (judgement, air) => {
  const order = { reference_first: "reference first", prediction_first: "prediction first" }[judgement.o] ?? judgement.o;
  const facts = el("p", { class: "facts" });
  if (order) facts.append(fact("order", order));
  if (air) facts.append(fact("prediction", score(judgement.p)), fact("reference", score(judgement.r)));
  if (judgement.by) facts.append(fact("judge", judgement.by));
  if (judgement.in !== null || judgement.out !== null) {
    facts.append(fact("tokens", `${score(judgement.in)} in, ${score(judgement.out)} out`));
  }
  if (judgement.n > 1) facts.append(fact("attempts", score(judgement.n)));
  if (judgement.c) facts.append(el("span", { text: "from the cache" }));
  return el("div", { class: "verdict" },
    facts,
    judgement.y ? said("pre", judgement.y) : el("p", { class: "muted", text: "(empty reply)" }),
    judgement.why ? said("p", `No verdict: ${judgement.why}`, "why") : null);
};

const verdicts = (answer, air) => {
  const many = answer.v.length;
  if (!many) return el("p", { class: "muted", text: "No verdict was logged." });
  return el("details", { class: "verdicts", open: air },
    el("summary", { text: many === 1 ? "The judge's verdict, as written" : "Both verdicts, as the judge wrote them" }),
    ...answer.v.map((judgement) => verdict(judgement, air)));
};

const answerCard = (runs, index, answer, air, figures) => el("section", { class: "answer" },
  el("header", {}, swatch(runs[index].series), said("b", runs[index].label), ...figures, ...(answer ? tags(answer) : [])),
  ...(answer
    ? [
      answer.p ? said("p", answer.p, "prose") : el("p", { class: "muted", text: "(empty answer)" }),
      answer.j ? null : said("p", `Unjudged: ${answer.why}`, "why"),
      verdicts(answer, air),
    ].filter(Boolean)
    : [el("p", { class: "muted", text: "This run has no answer to this doc." })]));

const rowText = (doc, parts) => el("div", { class: "what" },
  said("span", doc.q, "q"),
  el("span", { class: "sub" }, ...parts.filter(Boolean).map((part) => said("bdi", part))));

const airView = (docs, runs) => ({
  docs,
  runs,
  haystack: (doc) => [doc.q, doc.r, doc.m, doc.id, doc.f, doc.t, ...doc.x.flatMap((answer) => (answer ? [answer.p, ...answer.v.map((v) => v.y)] : []))].join("\n"),
  filters: [
    { name: "task", label: "Task", options: distinct(docs, (doc) => doc.t), test: (doc, _, value) => doc.t === value },
    { name: "source", label: "Source", options: distinct(docs, (doc) => doc.s), test: (doc, _, value) => doc.s === value },
    {
      name: "outcome", label: "Outcome", test: (_, answer, value) => outcome(answer) === value,
      options: [["win", "win"], ["tie", "tie"], ["loss", "loss"], ["unjudged", "unjudged"]],
    },
    {
      name: "score", label: "Score",
      options: [["1-3", "under 3"], ["3-5", "3 to 5"], ["5-7", "5 to 7"], ["7-9", "7 to 9"], ["9-11", "9 and 10"]],
      test: (_, answer, value) => {
        const [low, high] = value.split("-").map(Number);
        return answer && answer.sc !== null && answer.sc >= low && answer.sc < high;
      },
    },
    {
      name: "flag", label: "Flag", options: [["*", "any flag"], ...flagsOf(docs).map((flag) => [flag, flag])],
      test: (_, answer, value) => Boolean(answer) && (value === "*" ? answer.fl.length > 0 : answer.fl.includes(value)),
    },
  ],
  sorts: [
    { label: "as in the data" },
    { label: "lowest score first", way: 1, key: (_, answer) => answer?.sc ?? null },
    { label: "highest score first", way: -1, key: (_, answer) => answer?.sc ?? null },
    { label: "largest position gap first", way: -1, key: (_, answer) => (answer?.gap == null ? null : Math.abs(answer.gap)) },
    ...(runs.length > 1
      ? [{ label: "runs most apart first", way: -1, key: (doc) => spread(doc.x.map((answer) => answer?.sc)) }]
      : []),
  ],
  row: (doc) => [
    rowText(doc, [doc.t, doc.s]),
    el("div", { class: "scores" }, ...doc.x.map((answer, index) => el("span",
      { class: `score ${outcome(answer)} edge${runs.length > 1 ? ` s${(runs[index].series % 6) + 1}` : ""}`, text: score(answer?.sc), title: `${runs[index].label}: ${outcome(answer)}` }))),
  ],
  detail: (doc) => [
    el("p", { class: "facts" }, fact("task", doc.t), fact("source", doc.s), fact("id", doc.id), doc.sec === null ? null : fact("length", `${score(doc.sec)} s`)),
    said("h3", doc.q, doc.q.length > 240 ? "question long" : "question"),
    player(doc.a, doc.no),
    ...doc.x.map((answer, index) => answerCard(runs, index, answer, true, answer && answer.sc !== null
      ? [
        el("span", { class: `score ${outcome(answer)}`, text: score(answer.sc) }),
        el("span", { class: "muted", text: `${outcome(answer)} against ${score(answer.rf)}${answer.gap === null ? "" : `, position gap ${signed(answer.gap)}`}` }),
      ]
      : [])),
    heading("Reference answer"), said("p", doc.r, "prose"),
    heading("Audio description given to the judge"), said("p", doc.m, "prose small"),
  ],
});

const spread = (values) => {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length < 2 ? null : Math.max(...known) - Math.min(...known);
};

const LEVELS = ["none", "low", "medium", "high"];

// The traits stand under the class they belong to; `places` are those in `names`, the class first.
const levelList = (answer, names, places) => el("div", { class: "levels" }, ...places.map((group) => el("ul", {},
  ...group.map((place, order) => {
    const level = answer.lv?.[place];
    return el("li", { class: `level l${level ?? 0}${order ? "" : " class"}` },
      el("span", { text: names[place] }), el("b", { text: level === null || level === undefined ? "–" : LEVELS[level] }));
  }))));

const intimaView = (docs, runs, names, places) => ({
  docs,
  runs,
  haystack: (doc) => [doc.q, doc.s, doc.w, ...doc.x.flatMap((answer) => (answer ? [answer.p, ...answer.v.map((v) => v.y)] : []))].join("\n"),
  filters: [
    { name: "category", label: "Category", options: distinct(docs, (doc) => doc.t), test: (doc, _, value) => doc.t === value },
    { name: "code", label: "Behaviour", options: distinct(docs, (doc) => doc.s), test: (doc, _, value) => doc.s === value },
    {
      name: "label", label: "Label", test: (_, answer, value) => (value === "unjudged" ? Boolean(answer) && !answer.j : answer?.lb === value),
      options: ["reinforcing", "mixed", "boundary", "neutral", "unjudged"].map((label) => [label, label]),
    },
    {
      name: "trait", label: "Medium or high in", options: names.map((name, index) => [String(index), name]),
      test: (_, answer, value) => (answer?.lv?.[Number(value)] ?? 0) >= 2,
    },
    {
      name: "flag", label: "Flag", options: [["*", "any flag"], ...flagsOf(docs).map((flag) => [flag, flag])],
      test: (_, answer, value) => Boolean(answer) && (value === "*" ? answer.fl.length > 0 : answer.fl.includes(value)),
    },
    {
      name: "writer", label: "Prompt written by", options: distinct(docs, (doc) => doc.w), test: (doc, _, value) => doc.w === value,
    },
  ],
  sorts: [
    { label: "as in the data" },
    { label: "most reinforcing first", way: -1, key: (_, answer) => answer?.lv?.[0] ?? null },
    { label: "most boundary-maintaining first", way: -1, key: (_, answer) => answer?.lv?.[1] ?? null },
  ],
  row: (doc) => [
    rowText(doc, [doc.s, doc.t]),
    el("div", { class: "scores" }, ...doc.x.map((answer, index) => el("span",
      { class: `label edge ${answer?.lb || "unjudged"}${runs.length > 1 ? ` s${(runs[index].series % 6) + 1}` : ""}`, text: answer?.lb || "unjudged", title: runs[index].label }))),
  ],
  detail: (doc) => [
    el("p", { class: "facts" }, fact("category", doc.t), fact("behaviour", doc.s), fact("prompt written by", doc.w), fact("id", doc.id)),
    said("h3", doc.q, doc.q.length > 240 ? "question long" : "question"),
    ...doc.x.map((answer, index) => {
      const card = answerCard(runs, index, answer, false, answer?.lb ? [el("span", { class: `label ${answer.lb}`, text: answer.lb })] : []);
      if (answer?.lv) card.insertBefore(levelList(answer, names, places), card.querySelector(".verdicts"));
      return card;
    }),
  ],
});

const start = () => {
  startTheme();
  const data = readJson("data-report");
  const browsers = {};
  for (const [name, make] of [["air", airView], ["intima", intimaView]]) {
    const root = document.getElementById(`browser-${name}`);
    if (!root) continue;
    root.hidden = false;
    const { docs, runs, names, places } = data[name];
    browsers[name] = new Browser(root, make(docs, runs, names, places));
    if (docs.length && matchMedia("(min-width: 761px)").matches) browsers[name].open(docs[0], false);
  }
  const follow = () => {
    const [, name, key] = /^#(air|intima)-doc-([0-9a-f]+)$/.exec(location.hash) ?? [];
    if (name && browsers[name]?.reveal(key)) document.getElementById(`browser-${name}`).scrollIntoView();
  };
  addEventListener("hashchange", follow);
  follow();
  document.documentElement.dataset.ready = String(performance.now());
};
start();
