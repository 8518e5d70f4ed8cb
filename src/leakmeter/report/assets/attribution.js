// One answer beside its context: choose a token and see its pieces, or the reverse.
// -- disclosures: marks of a response, their lines in a list, and the words of the context that they came from
const leaksOf = (el) => (el.dataset.d || "").split(" ").filter(Boolean).map(Number);
const choosable = (box) => {
  for (const el of box.querySelectorAll(".leak>.label, .leaks dt")) {
    if (el.querySelector("button")) continue;
    const name = make("button", "", { type: "button", className: "choose" });
    name.append(...el.childNodes);
    el.append(name);
  }
};
const leaksFrom = (box, piece) => [...box.querySelectorAll(".leaks dt")].filter((el) => units(el).includes(piece)).flatMap(leaksOf);
// Light those of these numbers; `chosen` is the one of them that a reader chose itself, if one was.
const lightLeaks = (box, numbers, chosen = null) => {
  for (const el of box.querySelectorAll("[data-d]")) {
    el.classList.toggle("lit", leaksOf(el).some((d) => numbers.includes(d)));
    const name = el.querySelector("button.choose");
    if (name) name.setAttribute("aria-pressed", String(chosen !== null && leaksOf(el).includes(chosen)));
  }
  const word = chosen === null ? null : box.querySelector(".source.lit");
  if (word) word.scrollIntoView({ block: "nearest" });
};

window.leaks = { leaksOf, choosable, lightLeaks };

// -- one attribution: a context, a response, and tables of pieces
const open = (box) => {
  if (states.has(box)) return states.get(box);
  const data = JSON.parse(box.querySelector("script").textContent);
  const state = {
    box, data, token: null, piece: null, leak: null,
    spans: [...box.querySelectorAll(".ctx .s")],
    tokens: [...box.querySelectorAll(".tokens b")],
    rows: [...box.querySelectorAll("tr[data-p]")],
    says: make("p", "", { className: "state" }),
  };
  states.set(box, state);
  state.kept = new Map(state.rows.map((row) => [row, [...row.cells].map((c) => c.textContent)]));
  state.row = new Map(state.rows.map((row) => [Number(row.dataset.p), row]));
  state.says.setAttribute("aria-live", "polite");
  box.querySelector(".pair").after(state.says);
  for (const group of [state.spans, state.tokens]) {
    group.forEach((el, i) => {
      el.removeAttribute("title");
      el.setAttribute("role", "button");
      el.setAttribute("aria-pressed", "false");
      el.setAttribute("aria-describedby", "tip");
      el.tabIndex = i ? -1 : 0;
      if (!el.textContent.trim()) el.setAttribute("aria-label", "space");
    });
  }
  for (const row of state.rows) {
    const name = make("button", "", { type: "button" });
    name.append(...row.cells[0].childNodes);
    row.cells[0].append(name);
  }
  choosable(box);
  show(state);
  return state;
};
// Which column is what: [index, role], from the heads.
const roles = (row) => [...row.closest("table").tHead.rows[0].cells]
  .map((head, i) => [i, head.dataset.r]).filter(([, role]) => role);

// Beside a whole response one token is little: of one token, or one piece, colours are shares of the strongest.
const share = (n, floor, most) => n > floor ? Math.max(1, Math.round(bins * n / most)) : 0;
const largest = (numbers) => numbers.reduce((most, n) => Math.max(most, n), 0);

// After a search the tables have some of the pieces only.
const scored = (state) => "partly" in state.box.dataset ? " scored exactly" : "";

const show = (state) => {
  const { data, token, piece, leak } = state;
  const floor = token === null ? 0 : data.p[token] ?? Infinity;
  const nats = (i) => token === null ? data.n[i] : size(data.t[i][token]);
  const most = token === null ? 0 : largest(data.t.map((row) => size(row[token])));
  const colour = (n) => token === null ? heat(n, n > 0 ? data.f : 0) : share(n, floor, most);
  for (const span of state.spans) {
    paint(span, colour(largest(units(span).map(nats))));
    span.setAttribute("aria-pressed", String(piece !== null && [...units(span), ...values(span)].includes(piece)));
  }
  const peak = piece === null ? 0 : largest(data.t[piece].map(size));
  state.tokens.forEach((el, t) => {
    paint(el, piece === null ? size(data.w[t]) > (data.q[t] ?? Infinity) ? heat(size(data.w[t]), 0) : 0
      : share(size(data.t[piece][t]), data.p[t] ?? Infinity, peak));
    el.setAttribute("aria-pressed", String(t === token));
    el.classList.toggle("pin", t === token);
  });
  for (const row of state.rows) {
    const i = Number(row.dataset.p);
    const bar = row.querySelector(".bar i");
    const now = token === null ? nats(i) : size(data.t[i][token]);
    for (const [n, role] of roles(row)) {
      const told = { nats: () => cell(now), signed: () => signed(data.t[i][token]), whole: () => "–" }[role];
      if (role === "nats" || token === null) row.cells[n].textContent = state.kept.get(row)[n];
      if (token !== null) row.cells[n].textContent = told();
    }
    row.classList.toggle("q", !(now > floor));
    row.classList.toggle("pin", i === piece);
    paint(bar, colour(now));
    bar.style.setProperty("width", 86 * position(now) + "%");
  }
  lightLeaks(state.box, leak !== null ? [leak] : token !== null ? leaksOf(state.tokens[token].closest(".leak") || state.box)
    : piece !== null ? leaksFrom(state.box, piece) : [], leak);
  for (const table of new Set(state.rows.map((row) => row.closest("table")))) {
    sortTable(table, [...table.tHead.rows[0].cells].findIndex((head) => head.dataset.r === "nats"), -1, true);
  }
  // Noise floor and placebo are those of the whole response: beside one token they would mislead.
  state.box.classList.toggle("one", token !== null);
  const back = make("button", "Back to the whole response", { type: "button", className: "back" });
  if (token !== null) {
    const total = make("span", `Context and table now show the token “`);
    total.append(make("bdi", state.tokens[token].textContent.trim() || "␣"),
      `” alone: the whole context moved it by ${cell(size(data.w[token]))} nats. ` + (most > floor
        ? `Darkest is what moved it most, by ${cell(most)}.` : `No single piece${scored(state)} moved it by more than an irrelevant one.`));
    state.says.replaceChildren(total, back);
  } else if (leak !== null) {
    const total = make("span", "Lit in the context: the words that “");
    total.append(make("bdi", state.box.querySelector(`.leaks dt[data-d="${leak}"]+dd bdi`).textContent), "” came from.");
    state.says.replaceChildren(total, back);
  } else if (piece !== null) {
    const total = make("span", "The response now shows what “");
    total.append(make("bdi", state.kept.get(state.row.get(piece))[0]), `” alone did to each token${
      peak > 0 ? `; darkest is what it moved most, by ${cell(peak)} nats` : ""}.`);
    state.says.replaceChildren(total, back);
  } else if (!state.rows.length) {
    state.says.replaceChildren();
  } else {
    state.says.replaceChildren(make("span",
      "Choose a token to see which pieces it came from, or a piece to see which tokens it moved."
      + (state.box.querySelector(".leaks") ? " Choose a disclosure to see the words that it came from." : "")));
  }
};

const pin = (box, key, value) => {
  const state = open(box);
  const now = value === null || state[key] === value ? null : value;
  Object.assign(state, { token: null, piece: null, leak: null, [key]: now });
  show(state);
};

const strongest = (state, span) => {
  const nats = (i) => state.token === null ? state.data.n[i] : size(state.data.t[i][state.token]);
  return units(span).reduce((best, i) => best === null || nats(i) > nats(best) ? i : best, null);
};

// -- what lies under the pointer or the focus
const light = (state, index) => {
  for (const span of state.spans) span.classList.toggle("on", [...units(span), ...values(span)].includes(index));
  for (const row of state.rows) row.classList.toggle("on", Number(row.dataset.p) === index);
};
const line = (name, value) => {
  const row = make("div", "");
  row.append(make("span", name), make("span", value));
  return row;
};
const pieceLines = (state, index) => {
  const now = [...state.row.get(index).cells].map((c) => c.textContent);
  const sum = [...state.row.keys()].filter((i) => state.row.get(i).closest("table") === state.row.get(index).closest("table"))
    .reduce((total, i) => total + (state.token === null ? state.data.n[i] : size(state.data.t[i][state.token])), 0);
  const mine = state.token === null ? state.data.n[index] : size(state.data.t[index][state.token]);
  const heads = state.row.get(index).closest("table").tHead.rows[0].cells;
  const lines = [make("strong", now[0])];
  for (const [n, role] of roles(state.row.get(index))) {
    if (state.token === null || role !== "whole") lines.push(line(heads[n].textContent.toLowerCase(), now[n]));
  }
  if (sum > 0) lines.push(line(`share of all pieces${scored(state)}`, (100 * mine / sum).toFixed(0) + "\u00a0%"));
  return lines;
};
const place = (el, lines) => {
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const at = el.getClientRects()[0] || el.getBoundingClientRect();
  const x = Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8));
  const above = at.top - tip.offsetHeight - 8;
  tip.style.setProperty("left", x + "px");
  tip.style.setProperty("top", (above > 4 ? above : Math.min(at.bottom + 8, innerHeight - tip.offsetHeight - 4)) + "px");
};
const leave = () => { tip.hidden = true; };
const look = (event) => {
  const box = event.target.closest(".attribution");
  if (!box) return leave();
  const state = open(box);
  const span = event.target.closest(".ctx .s");
  const token = event.target.closest(".tokens b");
  const row = event.target.closest("tr[data-p]");
  if (span) {
    const index = strongest(state, span);
    light(state, index);
    const lines = [index, ...values(span)].filter((i) => i !== null).flatMap((i) => pieceLines(state, i));
    return place(span, lines);
  }
  light(state, row ? Number(row.dataset.p) : null);
  if (!token) return leave();
  const t = state.tokens.indexOf(token);
  const shown = (state.piece === null ? state.data.w : state.data.t[state.piece])[t];
  place(token, [make("strong", token.textContent.trim() || "␣"), line(state.piece === null ? "whole context" : "this piece",
    cell(size(shown)) + " nats"), line("signed", signed(shown))]);
};
document.addEventListener("pointerover", look);
document.addEventListener("focusin", look);
document.addEventListener("scroll", leave, { passive: true, capture: true });

const act = (event) => {
  const el = event.target;
  const box = el.closest(".attribution");
  if (!box) return undefined;
  const state = open(box);
  const token = el.closest(".tokens b");
  const span = el.closest(".ctx .s");
  const row = el.closest("tr[data-p]");
  const leak = el.closest(".choose");
  if (leak) pin(box, "leak", leaksOf(leak.closest("[data-d]"))[0]);
  else if (token) pin(box, "token", state.tokens.indexOf(token));
  else if (span) pin(box, "piece", strongest(state, span) ?? values(span)[0]);
  else if (row && el.closest("button")) pin(box, "piece", Number(row.dataset.p));
  else if (el.closest(".back")) pin(box, "token", null);
  return undefined;
};
document.addEventListener("click", act);

document.addEventListener("keydown", (event) => {
  const el = event.target.closest("[role=button]");
  if (event.key === "Escape") {
    leave();
    for (const [box, state] of states) if ([state.token, state.piece, state.leak].some((one) => one !== null)) pin(box, "token", null);
  } else if (el && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    act(event);
  } else if (el) {
    const group = [...el.closest(".ctx, .tokens").querySelectorAll("[role=button]")];
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = event.key === "Home" ? group[0] : event.key === "End" ? group.at(-1) : step && group[group.indexOf(el) + step];
    if (!to) return;
    event.preventDefault();
    el.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
});
