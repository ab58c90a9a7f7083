// What the two benchmarks show of a sample.
const swatch = (run) => el("i", { class: `swatch ${hue(run.series)}`, "aria-hidden": "true" });
const fact = (name, value) => el("span", { class: "fact" }, el("span", { text: `${name} ` }), said("b", value));
const distinct = (docs, pick) => [...new Set(docs.map(pick))].sort().map((value) => [value, value ? T(value) : T("(none)")]);
const MARKS = { win: "▲", tie: "=", loss: "▼", unjudged: "", absent: "" };
const LEVELS = ["none", "low", "medium", "high"];
const known = (values) => values.filter((value) => value !== null && value !== undefined);
const spread = (values) => (values.length < 2 ? null : Math.max(...values) - Math.min(...values));
const share = (part, whole) => `${((100 * part) / whole).toFixed(0)} %`;

const outcome = (answer) => {
  if (!answer) return "absent";
  if (!answer.j || answer.sc === null) return "unjudged";
  return answer.sc > answer.rf ? "win" : answer.sc === answer.rf ? "tie" : "loss";
};

const flagFilter = (docs, flags) => ({
  name: "flag", label: T("Remarkable"),
  options: [["*", T("anything")], ...[...new Set(docs.flatMap((doc) => doc.x.flatMap((answer) => answer?.fl ?? [])))].sort().map((flag) => [flag, T(flags[flag] ?? flag)])],
  test: (_, answer, value) => Boolean(answer) && (value === "*" ? answer.fl.length > 0 : answer.fl.includes(value)),
});

// The judge's prompt as it was stored, with the texts of this sample in their places.
const wholePrompt = ({ system, template }, fields) => {
  const filled = template.replace(/\{(\w+)\}|X(Audio|Question|Assistant1|Assistant2)X/g, (found, own, official) => {
    const name = own ?? { Audio: "meta_info", Question: "question", Assistant1: "answer_1", Assistant2: "answer_2" }[official];
    return name === "mark" ? "" : fields[name] ?? found;
  });
  const details = el("details", { class: "verdicts" }, el("summary", { text: T("The judge's whole prompt") }));
  details.addEventListener("toggle", () => details.append(said("pre", [system, filled].filter(Boolean).join("\n\n"))), { once: true });
  return details;
};

const verdict = (judgement, air, prompt, fields) => {
  const order = { reference_first: T("reference first"), prediction_first: T("prediction first") }[judgement.o] ?? judgement.o;
  const facts = el("p", { class: "facts" });
  if (order) facts.append(fact(T("order"), order));
  if (air) facts.append(fact(T("prediction"), score(judgement.p)), fact(T("reference"), score(judgement.r)));
  if (judgement.by) facts.append(fact(T("judge"), judgement.by));
  if (known([judgement.in, judgement.out]).length) {
    facts.append(fact(T("tokens"), T("{n} in, {m} out", { n: score(judgement.in), m: score(judgement.out) })));
  }
  if (judgement.n > 1) facts.append(fact(T("attempts"), score(judgement.n)));
  if (judgement.c) facts.append(el("span", { text: T("from the cache") }));
  return el("div", { class: "verdict" },
    facts,
    judgement.y ? said("pre", judgement.y) : el("p", { class: "muted", text: T("(empty reply)") }),
    judgement.why ? said("p", `${T("No verdict")}: ${T(judgement.why)}`, "why") : null,
    judgement.said ? said("p", `${T("The server's words")}: ${judgement.said}`, "why") : null,
    prompt?.template ? wholePrompt(prompt, fields(judgement.o)) : null);
};

// figures: nodes for the head of the card; fields(order): the texts in the judge's prompt.
const answerCard = (view, index, answer, { air, figures, fields, between }) => {
  const run = view.runs[index];
  const card = el("div", { class: "answer" },
    el("header", {}, swatch(run), said("b", run.label), ...figures, ...(answer?.fl ?? []).map((flag) => said("span", T(view.flags[flag] ?? flag), "tag flag"))));
  if (!answer) {
    card.append(el("p", { class: "muted", text: T("This run has no answer to this doc.") }));
    return card;
  }
  card.append(answer.p ? said("p", answer.p, "prose") : el("p", { class: "muted", text: T("(empty answer)") }));
  if (!answer.j) card.append(said("p", `${T("Could not be judged; excluded from every score")}: ${T(answer.why)}`, "why"));
  if (answer.said) card.append(said("p", `${T("The server's words")}: ${answer.said}`, "why"));
  if (between) card.append(between);
  const many = answer.v.length;
  if (!many) card.append(el("p", { class: "muted", text: T("No verdict was logged.") }));
  else card.append(el("details", { class: "verdicts", open: air },
    el("summary", { text: many === 1 ? T("The judge's verdict, as written") : T("Both verdicts, as the judge wrote them") }),
    ...answer.v.map((judgement) => verdict(judgement, air, run.prompt, fields))));
  return card;
};

const rowText = (doc, parts) => el("div", { class: "what" },
  said("span", doc.q, "q"),
  el("span", { class: "sub" }, ...parts.filter(Boolean).map((part) => said("bdi", T(part)))));

const chip = (run, many, css, text, title) => el("span", { class: `${css} edge ${many ? hue(run.series) : ""}`, text, title: `${run.label}: ${title}` });
const question = (doc) => said("h3", doc.q, doc.q.length > 240 ? "question long" : "question");
const texts = (doc) => [doc.q, doc.r, doc.m, doc.id, doc.f, doc.t, doc.s, doc.w, ...doc.x.flatMap((answer) => (answer ? [answer.p, ...answer.v.map((v) => v.y)] : []))].join("\n");

const airView = ({ docs, runs, flags }) => {
  const view = {
    docs, runs, flags, haystack: texts,
    filters: [
      { name: "task", label: T("Task"), options: distinct(docs, (doc) => doc.t), test: (doc, _, value) => doc.t === value },
      { name: "source", label: T("Source"), options: distinct(docs, (doc) => doc.s), test: (doc, _, value) => doc.s === value },
      {
        name: "outcome", label: T("Outcome"), test: (_, answer, value) => outcome(answer) === value,
        options: [["win", T("win")], ["tie", T("tie")], ["loss", T("loss")], ["unjudged", T("unjudged")]],
      },
      {
        name: "score", label: T("Score"),
        options: [["0-3", T("under 3")], ["3-5", T("3 to 5")], ["5-7", T("5 to 7")], ["7-9", T("7 to 9")], ["9-11", T("9 and 10")]],
        test: (_, answer, value) => {
          const [low, high] = value.split("-").map(Number);
          return answer && answer.sc !== null && answer.sc >= low && answer.sc < high;
        },
      },
      flagFilter(docs, flags),
    ],
    sorts: [
      { label: T("as in the data") },
      { label: T("lowest score first"), way: 1, key: (_, answer) => answer?.sc ?? null },
      { label: T("highest score first"), way: -1, key: (_, answer) => answer?.sc ?? null },
      { label: T("largest position gap first"), way: -1, key: (_, answer) => (answer?.gap == null ? null : Math.abs(answer.gap)) },
      ...(runs.length > 1 ? [{ label: T("runs most apart first"), way: -1, key: (doc) => spread(known(doc.x.map((answer) => answer?.sc))) }] : []),
    ],
    summary: (shown) => runs.flatMap((run, index) => {
      const scores = known(shown.map((doc) => doc.x[index]?.sc));
      const mean = scores.length ? (scores.reduce((a, b) => a + b, 0) / scores.length).toFixed(2) : "–";
      return [el("span", { class: "mean", title: run.label }, runs.length > 1 ? swatch(run) : null, T("mean {mean} of {n} judged", { mean, n: count(scores.length) }))];
    }),
    row: (doc) => [
      rowText(doc, [doc.t, doc.s]),
      el("div", { class: "scores" }, ...doc.x.map((answer, index) => chip(runs[index], runs.length > 1, `score ${outcome(answer)}`, `${score(answer?.sc)} ${MARKS[outcome(answer)]}`, T(outcome(answer))))),
    ],
    detail: (doc) => [
      el("p", { class: "facts" }, fact(T("task"), doc.t), fact(T("source"), doc.s), fact(T("id"), doc.id), doc.sec === null ? null : fact(T("length"), `${score(doc.sec)} s`)),
      question(doc),
      player(doc.a, doc.no),
      ...doc.x.map((answer, index) => answerCard(view, index, answer, {
        air: true,
        figures: !answer || answer.sc === null ? [] : [
          el("span", { class: `score ${outcome(answer)}`, text: `${score(answer.sc)} ${MARKS[outcome(answer)]}` }),
          el("span", { class: "muted", text: `${T(outcome(answer))}, ${T("reference")} ${score(answer.rf)}${answer.gap === null ? "" : `, ${T("position gap")} ${signed(answer.gap)}`}` }),
        ],
        fields: (order) => {
          const sides = order === "prediction_first" ? [answer.p, doc.r] : [doc.r, answer.p];
          return { meta_info: doc.m, question: doc.q, answer_1: sides[0], answer_2: sides[1] };
        },
      })),
      el("h4", { text: T("Reference answer") }), said("p", doc.r, "prose"),
      el("h4", { text: T("Audio description given to the judge") }), said("p", doc.m, "prose small"),
    ],
  };
  return view;
};

// The traits stand under the class they belong to; `places` are those in `names`, the class first.
const levelList = (answer, names, places) => el("div", { class: "levels" }, ...places.map((group) => el("ul", {},
  ...group.map((place, order) => {
    const level = answer.lv[place];
    return el("li", { class: `level l${level ?? 0}${order ? "" : " class"}` },
      el("span", { text: T(names[place]) }), el("b", { text: known([level]).length ? T(LEVELS[level]) : "–" }));
  }))));

const intimaView = ({ docs, runs, flags, names, places }) => {
  const labels = ["reinforcing", "mixed", "boundary", "neutral", "unjudged"], many = runs.length > 1;
  const view = {
    docs, runs, flags, haystack: texts,
    filters: [
      { name: "category", label: T("Category"), options: distinct(docs, (doc) => doc.t), test: (doc, _, value) => doc.t === value },
      { name: "code", label: T("Behaviour"), options: distinct(docs, (doc) => doc.s), test: (doc, _, value) => doc.s === value },
      {
        name: "label", label: T("Label"), options: labels.map((label) => [label, T(label)]),
        test: (_, answer, value) => (value === "unjudged" ? Boolean(answer) && !answer.j : answer?.lb === value),
      },
      {
        name: "trait", label: T("Medium or high in"), options: names.map((name, index) => [String(index), T(name)]),
        test: (_, answer, value) => (answer?.lv?.[Number(value)] ?? 0) >= 2,
      },
      flagFilter(docs, flags),
      { name: "writer", label: T("Prompt written by"), options: distinct(docs, (doc) => doc.w), test: (doc, _, value) => doc.w === value },
    ],
    sorts: [
      { label: T("as in the data") },
      { label: T("most reinforcing first"), way: -1, key: (_, answer) => answer?.lv?.[0] ?? null },
      { label: T("most boundary-maintaining first"), way: -1, key: (_, answer) => answer?.lv?.[1] ?? null },
    ],
    summary: (shown) => runs.map((run, index) => {
      const found = shown.map((doc) => doc.x[index]?.lb).filter(Boolean);
      const shares = labels.slice(0, 4).map((label) => `${T(label)} ${share(found.filter((one) => one === label).length, found.length || 1)}`);
      return el("span", { class: "mean", title: run.label }, many ? swatch(run) : null, shares.join(", "));
    }),
    row: (doc) => [
      rowText(doc, [doc.s, doc.t]),
      el("div", { class: "scores" }, ...doc.x.map((answer, index) => {
        const label = answer?.lb || "unjudged", word = T(label);
        return chip(runs[index], many, `label ${label}`, runs.length < 3 ? word : word.slice(0, 1).toUpperCase(), word);
      })),
    ],
    detail: (doc) => [
      el("p", { class: "facts" }, fact(T("category"), T(doc.t)), fact(T("behaviour"), doc.s), fact(T("prompt written by"), doc.w), fact(T("id"), doc.id)),
      question(doc),
      ...doc.x.map((answer, index) => answerCard(view, index, answer, {
        air: false,
        figures: answer?.lb ? [el("span", { class: `label ${answer.lb}`, text: T(answer.lb) })] : [],
        fields: () => ({ prompt: doc.q, answer: answer.p }),
        between: answer?.lv ? levelList(answer, names, places) : null,
      })),
    ],
  };
  return view;
};

const browsers = {};
const follow = () => {
  const [, name, key] = /^#(air|intima)-doc-([0-9a-f]+)$/.exec(location.hash) ?? [];
  if (name && browsers[name]?.reveal(key)) document.getElementById(`browser-${name}`).scrollIntoView();
};

const start = () => {
  startTheme();
  startTools();
  document.body.classList.remove("sheet");
  const button = document.getElementById("language"), other = document.querySelector("template[data-language]").dataset.language;
  button.hidden = false;
  button.lang = other;
  button.onclick = () => {
    setLanguage(other);
    remember("report-language", other);
    start();
  };
  for (const [name, make] of [["air", airView], ["intima", intimaView]]) {
    const root = document.getElementById(`browser-${name}`);
    if (!root) continue;
    root.hidden = false;
    browsers[name] = new Browser(root, name, make(report[name]));
  }
  follow();
};
const stored = remember("report-language");
if (stored && stored !== document.documentElement.lang) setLanguage(stored);
start();
addEventListener("hashchange", follow);
document.documentElement.dataset.ready = String(performance.now());
