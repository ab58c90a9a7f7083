// What each benchmark shows of a sample.
const swatch = (run) => el("i", { class: `swatch ${hue(run.series)}`, "aria-hidden": "true" });
const fact = (name, value) => el("span", { class: "fact" }, el("span", { text: `${name} ` }), said("b", value));
const distinct = (docs, pick) => [...new Set(docs.map(pick))].sort().map((value) => [value, value ? T(value) : T("(none)")]);
const MARKS = { win: "▲", tie: "=", loss: "▼", unjudged: "", absent: "" };
const LEVELS = ["none", "low", "medium", "high"];
const known = (values) => values.filter((value) => value !== null && value !== undefined);
const spread = (values) => (values.length < 2 ? null : Math.max(...values) - Math.min(...values));
const share = (part, whole) => `${((100 * part) / whole).toFixed(0)}%`;

const outcome = (answer) => {
  if (!answer) return "absent";
  if (!answer.j || answer.sc === null) return "unjudged";
  return answer.sc > answer.rf ? "win" : answer.sc === answer.rf ? "tie" : "loss";
};

// Filters, sorts and sums. `pick` takes a doc, or the answer of the run that is filtered by.
const ofDoc = (name, label, docs, pick) => ({ name, label, options: distinct(docs, pick), test: (doc, _, value) => pick(doc) === value });
const ofAnswer = (name, label, pick, values) => ({
  name, label, options: values.map((value) => [value, T(value)]), test: (_, answer, value) => pick(answer) === value,
});
const byAnswer = (label, way, pick) => ({ label: T(label), way, key: (_, answer) => (answer ? pick(answer) ?? null : null) });
const mostApart = (runs) => (runs.length > 1 ? [{ label: T("largest difference between runs first"), way: -1, key: (doc) => spread(known(doc.x.map((answer) => answer?.sc))) }] : []);
const flagFilter = (docs) => ({
  name: "flag", label: T("Flagged"),
  options: [["*", T("any flag")], ...[...new Set(docs.flatMap((doc) => doc.x.flatMap((answer) => answer?.fl ?? [])))].sort().map((flag) => [flag, T(report.flags[flag] ?? flag)])],
  test: (_, answer, value) => Boolean(answer) && (value === "*" ? answer.fl.length > 0 : answer.fl.includes(value)),
});
const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN);
// One line for each run of the samples that are listed now.
const perRun = (runs, words) => (shown) => runs.map((run, index) => el("span", { class: "mean", title: run.label },
  runs.length > 1 ? swatch(run) : null, words(shown.map((doc) => doc.x[index]).filter(Boolean))));

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
const answerCard = (run, answer, { air, figures, fields, between, unjudged }) => {
  const card = el("div", { class: "answer" },
    el("header", {}, swatch(run), said("b", run.label), ...figures, ...(answer?.fl ?? []).map((flag) => said("span", T(report.flags[flag] ?? flag), "tag flag"))));
  if (!answer) {
    card.append(el("p", { class: "muted", text: T("This run has no answer to this doc.") }));
    return card;
  }
  card.append(answer.p ? said("p", answer.p, "prose") : el("p", { class: "muted", text: T("(empty answer)") }));
  if (!answer.j) card.append(said("p", `${T(unjudged ?? "Could not be judged; excluded from every score")}: ${T(answer.why)}`, "why"));
  if (answer.said) card.append(said("p", `${T("The server's words")}: ${answer.said}`, "why"));
  if (between) card.append(between);
  if (!fields) return card;
  const many = answer.v.length;
  if (!many) card.append(el("p", { class: "muted", text: T("No verdict was logged.") }));
  else card.append(el("details", { class: "verdicts", open: air },
    el("summary", { text: many === 1 ? T("The judge's verdict, as written") : T("Both verdicts, as the judge wrote them") }),
    ...answer.v.map((judgement) => verdict(judgement, air, run.prompt, fields))));
  return card;
};

const texts = (doc) => [doc.q, doc.r, doc.m, doc.id, doc.f, doc.t, doc.s, doc.w, ...(doc.ch ?? []).flat(), ...doc.x.flatMap((answer) => (answer ? [answer.p, ...answer.v.map((v) => v.y)] : []))].join("\n");

// spec: filters, sorts, summary; chip(answer) -> [css, text, title]; parts(doc) and facts(doc) of a doc; before and
// after the answers what belongs to the doc; card(doc, answer): what answerCard takes.
const makeView = ({ docs, runs }, { chip, parts, facts, before, after = () => [], card, sorts, ...spec }) => ({
  docs, runs, haystack: texts, sorts: [{ label: T("as in the data") }, ...sorts], ...spec,
  row: (doc) => [
    el("div", { class: "what" }, said("span", doc.q, "q"), el("span", { class: "sub" }, ...parts(doc).filter(Boolean).map((part) => said("bdi", T(part))))),
    el("div", { class: "scores" }, ...doc.x.map((answer, index) => {
      const [css, text, title] = chip(answer);
      return el("span", { class: `${css} edge ${runs.length > 1 ? hue(runs[index].series) : ""}`, text, title: `${runs[index].label}: ${title}` });
    })),
  ],
  detail: (doc) => [
    el("p", { class: "facts" }, ...facts(doc), fact(T("id"), doc.id), known([doc.sec]).length ? fact(T("length"), `${score(doc.sec)} s`) : null),
    said("h3", doc.q, doc.q.length > 240 ? "question long" : "question"),
    ...(doc.no === undefined ? [] : [player(doc.a, doc.no)]), ...(before?.(doc) ?? []),
    ...doc.x.map((answer, index) => answerCard(runs[index], answer, card(doc, answer))),
    ...after(doc),
  ],
});

const SCORES = { "0-3": "under 3", "3-5": "3 to 5", "5-7": "5 to 7", "7-9": "7 to 9", "9-11": "9 and 10" };
const airView = ({ docs, runs }) => makeView({ docs, runs }, {
  filters: [
    ofDoc("task", T("Task"), docs, (doc) => doc.t), ofDoc("source", T("Source"), docs, (doc) => doc.s),
    ofAnswer("outcome", T("Outcome"), outcome, ["win", "tie", "loss", "unjudged"]),
    {
      name: "score", label: T("Score"), options: Object.entries(SCORES).map(([range, words]) => [range, T(words)]),
      test: (_, answer, value) => {
        const [low, high] = value.split("-").map(Number);
        return answer && answer.sc !== null && answer.sc >= low && answer.sc < high;
      },
    },
    flagFilter(docs),
  ],
  sorts: [
    byAnswer("lowest score first", 1, (answer) => answer.sc), byAnswer("highest score first", -1, (answer) => answer.sc),
    byAnswer("largest position gap first", -1, (answer) => (answer.gap === null ? null : Math.abs(answer.gap))),
    ...mostApart(runs),
  ],
  summary: perRun(runs, (answers) => {
    const scores = known(answers.map((answer) => answer.sc));
    return T("mean {mean} of {n} judged", { mean: scores.length ? mean(scores).toFixed(2) : "–", n: count(scores.length) });
  }),
  parts: (doc) => [doc.t, doc.s],
  chip: (answer) => [`score ${outcome(answer)}`, `${score(answer?.sc)} ${MARKS[outcome(answer)]}`, T(outcome(answer))],
  facts: (doc) => [fact(T("task"), doc.t), fact(T("source"), doc.s)],
  card: (doc, answer) => ({
    air: true,
    figures: !answer || answer.sc === null ? [] : [
      el("span", { class: `score ${outcome(answer)}`, text: `${score(answer.sc)} ${MARKS[outcome(answer)]}` }),
      el("span", { class: "muted", text: `${T(outcome(answer))}, ${T("reference")} ${score(answer.rf)}${answer.gap === null ? "" : `, ${T("position gap")} ${signed(answer.gap)}`}` }),
    ],
    fields: (order) => {
      const sides = order === "prediction_first" ? [answer.p, doc.r] : [doc.r, answer.p];
      return { meta_info: doc.m, question: doc.q, answer_1: sides[0], answer_2: sides[1] };
    },
  }),
  after: (doc) => [
    el("h4", { text: T("Reference answer") }), said("p", doc.r, "prose"),
    el("h4", { text: T("Audio description given to the judge") }), said("p", doc.m, "prose small"),
  ],
});

// An answer to a choice is right or wrong, holds no letter, or was not given.
const LETTERS = { right: ["win", "✓"], wrong: ["loss", "✗"], "no letter": ["tie", "?"], unanswered: ["unjudged", ""], absent: ["absent", ""] };
const choice = (answer) => (!answer ? "absent" : !answer.j ? "unanswered" : !answer.lt ? "no letter" : answer.sc ? "right" : "wrong");
const letterChip = (answer) => {
  const [css, mark] = LETTERS[choice(answer)];
  return [`score ${css}`, `${answer?.lt || "–"} ${mark}`, T(choice(answer))];
};

const foundationView = ({ docs, runs }) => makeView({ docs, runs }, {
  filters: [
    ofDoc("task", T("Task"), docs, (doc) => doc.t), ofDoc("source", T("Source"), docs, (doc) => doc.s),
    ofAnswer("outcome", T("Result"), choice, ["right", "wrong", "no letter", "unanswered"]), flagFilter(docs),
  ],
  sorts: [
    byAnswer("wrong answers first", 1, (answer) => answer.sc),
    ...mostApart(runs),
  ],
  summary: perRun(runs, (answers) => {
    const scores = known(answers.map((answer) => answer.sc));
    return T("{share} right of {n} scored", { share: scores.length ? share(mean(scores), 1) : "–", n: count(scores.length) });
  }),
  parts: (doc) => [doc.t, doc.s],
  chip: letterChip,
  facts: (doc) => [fact(T("task"), doc.t), fact(T("source"), doc.s)],
  before: (doc) => [el("ul", { class: "choices" }, ...doc.ch.map(([letter, words]) => el("li", { class: letter === doc.r ? "key" : "" },
    el("b", { text: letter }), said("span", words), letter === doc.r ? el("span", { class: "muted", text: T("the answer") }) : null)))],
  card: (doc, answer) => {
    const [css, text, title] = letterChip(answer);
    return {
      unjudged: "Unanswered; excluded from every score",
      figures: answer ? [el("span", { class: css, text }), el("span", { class: "muted", text: title })] : [],
    };
  },
});

// The traits stand under the class they belong to; `places` are those in `names`, the class first.
const levelList = (answer, names, places) => el("div", { class: "levels" }, ...places.map((group) => el("ul", {},
  ...group.map((place, order) => {
    const level = answer.lv[place];
    return el("li", { class: `level l${level ?? 0}${order ? "" : " class"}` },
      el("span", { text: T(names[place]) }), el("b", { text: known([level]).length ? T(LEVELS[level]) : "–" }));
  }))));

const LABELS = ["reinforcing", "mixed", "boundary", "neutral", "unjudged"];
const labelOf = (answer) => answer?.lb || "unjudged";
const intimaView = ({ docs, runs }) => makeView({ docs, runs }, {
  filters: [
    ofDoc("category", T("Category"), docs, (doc) => doc.t), ofDoc("code", T("Behaviour"), docs, (doc) => doc.s),
    ofAnswer("label", T("Label"), (answer) => answer && labelOf(answer), LABELS),
    {
      name: "trait", label: T("Medium or high in"), options: report.names.map((name, index) => [String(index), T(name)]),
      test: (_, answer, value) => (answer?.lv?.[Number(value)] ?? 0) >= 2,
    },
    flagFilter(docs), ofDoc("writer", T("Prompt written by"), docs, (doc) => doc.w),
  ],
  sorts: [
    byAnswer("most reinforcing first", -1, (answer) => answer.lv?.[0]),
    byAnswer("most boundary-maintaining first", -1, (answer) => answer.lv?.[1]),
  ],
  summary: perRun(runs, (answers) => {
    const found = answers.map((answer) => answer.lb).filter(Boolean);
    return LABELS.slice(0, 4).map((label) => `${T(label)} ${share(found.filter((one) => one === label).length, found.length || 1)}`).join(", ");
  }),
  parts: (doc) => [doc.s, doc.t],
  chip: (answer) => {
    const word = T(labelOf(answer));
    return [`label ${labelOf(answer)}`, runs.length < 3 ? word : word.slice(0, 1).toUpperCase(), word];
  },
  facts: (doc) => [fact(T("category"), T(doc.t)), fact(T("behaviour"), doc.s), fact(T("prompt written by"), doc.w)],
  card: (doc, answer) => ({
    figures: answer?.lb ? [el("span", { class: `label ${answer.lb}`, text: T(answer.lb) })] : [],
    fields: () => ({ prompt: doc.q, answer: answer.p }),
    between: answer?.lv ? levelList(answer, report.names, report.places) : null,
  }),
});

const VIEWS = { air: airView, foundation: foundationView, intima: intimaView };
const browsers = {};
const follow = () => {
  const [, name, key] = /^#(\w+)-doc-([0-9a-f]+)$/.exec(location.hash) ?? [];
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
  for (const [name, make] of Object.entries(VIEWS)) {
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
