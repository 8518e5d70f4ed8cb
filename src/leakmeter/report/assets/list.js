// Tables and the list of cases: searched, narrowed by chips, sorted, turned over and copied.

// -- what both have: a record is {texts: () => [text of each cell], words: () => searched text, values: (column) => []},
// a column {title, numeric, chips}
const number = (text) => {
  const n = parseFloat(text.replace("−", "-").replace(/[^0-9.e+-]/g, ""));
  return Number.isNaN(n) ? -Infinity : n;
};
const inWords = new Intl.Collator("en", { numeric: true }).compare;
const compare = (numeric) => numeric ? (a, b) => number(a) - number(b) : inWords;
// The numbers of a column are read from the top first.
const nextDirection = (head, numeric) => {
  const was = head.getAttribute("aria-sort");
  return was ? (was === "ascending" ? -1 : 1) : numeric ? -1 : 1;
};
const markSorted = (heads, sorted, direction) => heads.forEach((head) => head === sorted
  ? head.setAttribute("aria-sort", direction < 0 ? "descending" : "ascending") : head.removeAttribute("aria-sort"));

// No cell is a formula to a spreadsheet.
const csvCell = (text, numeric) => {
  const words = text.replace(/\s+/g, " ").trim();
  const plain = words.replace(/^\+/, "").replace("−", "-").replaceAll(",", "");
  if (numeric && /^-?\d+(\.\d+)?(e-?\d+)?$/.test(plain)) return plain;
  return `"${(/^[=+\-@]/.test(words) || /^[\t\r]/.test(text) ? "'" : "") + words.replaceAll('"', '""')}"`;
};
const csvOf = (columns, records) => [columns.map((column) => csvCell(column.title, false)),
  ...records.map((record) => record.texts().map((text, i) => csvCell(text, columns[i].numeric)))]
  .map((line) => line.join(",") + "\r\n").join("");
const copy = async (text, says, done) => {
  try {
    await navigator.clipboard.writeText(text);
    says.textContent = done;
  } catch {
    // A page within another may not write there: what it would have written can be copied by hand.
    const box = make("textarea", text, { readOnly: true, rows: 4 });
    box.setAttribute("aria-label", "Rows as CSV");
    says.replaceChildren("Copy these lines: ", box);
    box.select();
  }
};

// Of a column with many values: a menu of check boxes, which are made when it is first opened. Its line says what is chosen.
const menuOf = (title, named, choose) => {
  const menu = make("details", "", { className: "menu" });
  const line = make("summary", "");
  const boxes = make("div", "", { className: "boxes" });
  boxes.setAttribute("role", "group");
  boxes.setAttribute("aria-label", title);
  const chosen = new Set();
  const tell = () => {
    const [only] = chosen;
    line.textContent = `${title}: ${chosen.size === 0 ? "all" : chosen.size === 1 ? only : `${chosen.size} of ${named.length}`}`;
  };
  const fill = () => {
    if (boxes.firstChild) return;
    for (const [value, n] of named) {
      const label = make("label", "");
      const box = make("input", "", { type: "checkbox" });
      const name = value || "none";
      box.addEventListener("change", () => {
        if (box.checked) chosen.add(name); else chosen.delete(name);
        tell();
        choose(value, box.checked);
      });
      label.append(box, `${name} (${n})`);
      boxes.append(label);
    }
  };
  menu.addEventListener("toggle", () => {
    if (menu.open) fill();
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    line.focus();
  });
  menu.append(line, boxes);
  tell();
  const clear = () => {
    chosen.clear();
    for (const box of boxes.querySelectorAll("input")) box.checked = false;
    tell();
  };
  return { menu, clear };
};

// A search box, chips and "Copy as CSV" above a list. `changed` is called with the records that are left.
const toolsOf = (columns, records, names, { searched, changed }) => {
  const chosen = new Map();
  const menus = [];
  let words = "";
  const says = make("p", "", { className: "count" });
  says.setAttribute("role", "status");
  const left = () => records.filter((record) => (!words || record.words().includes(words))
    && [...chosen].every(([column, wanted]) => record.values(column).some((value) => wanted.has(value))));
  const clear = button("Show all", () => {
    words = "";
    chosen.clear();
    for (const box of bar.querySelectorAll("input[type=search]")) box.value = "";
    for (const menu of menus) menu.clear();
    for (const chip of bar.querySelectorAll("[aria-pressed]")) chip.setAttribute("aria-pressed", "false");
    change();
  });
  const change = () => {
    const found = left();
    const narrowed = words !== "" || chosen.size > 0;
    says.textContent = found.length ? `${found.length.toLocaleString("en")} of ${records.length.toLocaleString("en")} ${names}`
      : `No ${names} match.`;
    says.hidden = !narrowed && !searched;
    clear.hidden = !narrowed;
    changed(found, narrowed);
  };
  const choose = (column, value, on) => {
    const wanted = chosen.get(column) || new Set();
    if (on) wanted.add(value); else wanted.delete(value);
    if (wanted.size) chosen.set(column, wanted); else chosen.delete(column);
    change();
  };
  const bar = make("div", "", { className: "tools" });
  if (searched) {
    const label = make("label", "Search ");
    const box = make("input", "", { type: "search" });
    box.addEventListener("input", () => {
      words = box.value.trim().toLowerCase();
      change();
    });
    label.append(box);
    bar.append(label);
  }
  columns.forEach((column, at) => {
    if (!column.chips) return;
    const counts = new Map();
    for (const record of records) for (const value of new Set(record.values(at))) counts.set(value, (counts.get(value) || 0) + 1);
    if (counts.size < 2) return;
    const named = [...counts].sort((a, b) => b[1] - a[1] || inWords(a[0], b[0]));
    if (counts.size > mostChips) {
      const made = menuOf(column.title, named, (value, on) => choose(at, value, on));
      menus.push(made);
      return bar.append(made.menu);
    }
    const group = make("span", `${column.title}: `, { className: "chips" });
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", column.title);
    for (const [value, n] of named) {
      const chip = button(`${value || "none"} (${n})`, () => {
        const on = chip.getAttribute("aria-pressed") === "false";
        chip.setAttribute("aria-pressed", String(on));
        choose(at, value, on);
      });
      chip.setAttribute("aria-pressed", "false");
      group.append(chip);
    }
    return bar.append(group);
  });
  const foot = make("div", "", { className: "counted" });
  foot.append(says, clear, button("Copy as CSV", () => {
    const found = left();
    copy(csvOf(columns, found), says, `${found.length.toLocaleString("en")} rows are copied.`);
    says.hidden = false;
  }));
  bar.append(foot);
  change();
  return bar;
};

// -- tables
// Without a reader's choice of a column, what is no finding comes last, whatever its number.
const sortTable = (table, column, direction, quietLast = false) => {
  const heads = [...table.tHead.rows[0].cells];
  const order = compare(heads[column].classList.contains("n"));
  const key = (row) => row.cells[column].textContent.trim();
  const quiet = (row) => Number(quietLast && row.classList.contains("q"));
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => quiet(a) - quiet(b) || direction * order(key(a), key(b))));
  markSorted(heads, heads[column], direction);
};
const headed = (head, act) => head.replaceChildren(button(head.textContent, act));
const sortable = (table) => [...table.tHead.rows[0].cells].forEach((head, at) => {
  if (head.classList.contains("axis") || head.classList.contains("empty")) return;
  headed(head, () => sortTable(table, at, nextDirection(head, head.classList.contains("n"))));
});
// Of a long table the first rows, by whatever it is sorted, until a reader asks for all.
const shortened = (table) => {
  const n = table.tBodies[0].rows.length;
  if (n <= firstRows) return;
  const more = button(`Show all ${n} ${table.dataset.rest}`, () => {
    table.classList.remove("short");
    more.remove();
  });
  table.classList.add("short");
  table.closest(".scroll").after(more);
};
const saidIn = (td) => [...td.querySelectorAll(".tag")].map((one) => one.textContent).join(", ") || td.textContent;
const filterable = (table) => {
  const heads = [...table.tHead.rows[0].cells];
  const columns = heads.map((head) => ({
    title: head.textContent.trim(), numeric: head.classList.contains("n"), chips: "chips" in head.dataset,
    drawn: head.matches(".axis, .empty"),
  }));
  const searched = "filter" in table.dataset;
  if (!searched && !columns.some((column) => column.chips)) return;
  const bodies = [...table.tBodies[0].rows];
  const shown = columns.map((column, at) => at).filter((at) => !columns[at].drawn);
  const records = bodies.map((row) => ({
    row,
    texts: () => shown.map((at) => saidIn(row.cells[at])),
    words: () => [...row.cells].filter((one) => one.matches("th, .t")).map((one) => one.textContent).join(" ").toLowerCase(),
    values: (at) => {
      const several = [...row.cells[shown[at]].querySelectorAll(".tag")].map((one) => one.textContent);
      return several.length ? several : [row.cells[shown[at]].firstChild?.textContent.trim() ?? ""];
    },
  }));
  const changed = (found, narrowed) => {
    const left = new Set(found);
    table.classList.toggle("found", narrowed);
    for (const record of records) record.row.hidden = !left.has(record);
  };
  table.closest(".scroll").before(toolsOf(shown.map((at) => columns[at]), records, table.dataset.rest, { searched, changed }));
};
const prepareTables = (root) => {
  for (const table of root.querySelectorAll("table[data-rest]")) {
    filterable(table);
    if ("sort" in table.dataset) sortable(table);
    shortened(table);
  }
};

// -- the list of cases
// The file has each as a line that opens, which a browser without the script shows. Further ones stand in a noscript element,
// which is text where there is a script: of 10,000 only those of the present screen become elements. All of it was
// written by the page's template, which escaped every text of users; nothing else is ever read as markup.
const template = document.createElement("template");
const elementsOf = (markup) => {
  template.innerHTML = markup;
  return template.content;
};
const letters = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&#34;": '"', "&quot;": '"', "&#39;": "'", "&nbsp;": "\u00a0" };
const textOf = (markup) => markup.replace(/<small>/g, " ").replace(/<[^>]*>/g, "")
  .replace(/&(?:amp|lt|gt|quot|nbsp|#34|#39);/g, (one) => letters[one]).trim();

const recordOf = (id, head, isOnly, body) => {
  const cells = head.split(/(?=<(?:span|strong)[ >])/).filter((one) => /^<(?:span|strong)/.test(one));
  const kept = {};
  return {
    id, isOnly, body, head, row: null, node: null, unfolded: null,
    name: () => kept.name ??= textOf(cells.find((one) => one.startsWith("<strong"))),
    texts: () => kept.texts ??= cells.map((one) => textOf(one.replaceAll('</i><i class="tag">', ", "))),
    words: () => kept.words ??= textOf(head).toLowerCase(),
    values: (at) => {
      const found = [...cells[at].matchAll(/<i class="tag">(.*?)<\/i>/g)].map((one) => textOf(one[1]));
      return found.length ? found : [textOf(cells[at])];
    },
  };
};
const recordsOf = (box) => {
  const records = [...box.querySelectorAll("details.line")].map((line) => {
    const [head, ...nodes] = line.childNodes;
    const body = document.createDocumentFragment();
    body.append(...nodes);
    return recordOf(line.id, head.innerHTML, false, () => body);
  });
  for (const one of box.querySelectorAll("noscript")) {
    for (const markup of one.textContent.split(/(?=<details class="line)/)) {
      const at = markup.indexOf("<summary>");
      const end = markup.indexOf("</summary>");
      if (at < 0) continue;
      const body = markup.slice(end + "</summary>".length, markup.lastIndexOf("</details>"));
      const head = markup.slice(at + "<summary>".length, end);
      records.push(recordOf(/id="(c\d+)"/.exec(markup)[1], head, markup.startsWith('<details class="line only"'), () => elementsOf(body)));
    }
  }
  return records;
};

const listOfCases = (box) => {
  const { one: noun, many, held } = box.dataset;
  const records = recordsOf(box);
  const columns = [...box.querySelector(".columns").children].map((head) => ({
    title: head.textContent, numeric: head.classList.contains("n"), chips: "chips" in head.dataset, hidden: head.hidden,
    kind: head.className,
  }));
  const nameAt = columns.findIndex((column) => column.kind === "name");
  const wide = matchMedia("(min-width: 1100px)");
  let found = records, first = 0, chosen = null, order = null;

  // A table of the present screen, and beside it or within it what is chosen.
  const table = make("table", "", { className: "list" });
  const body = table.createTBody();
  const head = table.createTHead().insertRow();
  for (const column of columns) {
    const th = make("th", column.title, { className: column.numeric ? "n" : "", hidden: column.hidden });
    th.scope = "col";
    headed(th, () => {
      const direction = nextDirection(th, column.numeric);
      markSorted([...head.cells], th, direction);
      order = { at: columns.indexOf(column), direction };
      arrange();
      turn(0);
    });
    head.append(th);
  }
  const left = make("div", "", { className: "lines" });
  const pane = make("section", "", { className: "chosen", tabIndex: 0 });
  const keys = make("p", "↓ and ↑, or j and k: next and previous", { className: "keys" });
  const pager = make("div", "", { className: "pager" });
  const says = make("span", "");
  says.setAttribute("aria-live", "polite");
  const back = button("Previous", () => turn(first - screen));
  const on = button("Next", () => turn(first + screen));
  pager.append(back, says, on);
  const scrolled = make("div", "", { className: "scroll lined" });
  scrolled.append(table);

  const rowOf = (record) => {
    if (record.row) return record.row;
    const row = make("tr", "", { id: record.id });
    [...elementsOf(record.head).children].forEach((one, at) => {
      const td = make(at === nameAt ? "th" : "td", "", { className: one.className, hidden: one.hidden });
      td.append(...one.childNodes);
      if (at === nameAt) {
        const link = make("a", "", { href: "#" + record.id });
        link.append(...td.childNodes);
        td.append(link);
        td.scope = "row";
      } else if (columns[at].title) {
        td.dataset.l = columns[at].title;
      }
      row.append(td);
    });
    record.row = row;
    return row;
  };
  const nodeOf = (record) => {
    if (record.node) return record.node;
    record.node = make("div", "", { className: "one" });
    if (record.isOnly) record.node.append(make("p", `Only this line is on this page; ${held}: open the run for this ${noun}.`, { className: "soft" }));
    else record.node.append(record.body());
    record.node.querySelectorAll(".attribution").forEach(open);
    prepareTables(record.node);
    return record.node;
  };
  const fold = (record) => {
    record.unfolded?.remove();
    record.unfolded = null;
  };
  const unfold = (record) => {
    if (record.unfolded) return;
    const line = make("tr", "", { className: "unfolded" });
    const td = make("td", "");
    td.colSpan = columns.length;
    td.append(nodeOf(record));
    line.append(td);
    record.unfolded = line;
    record.row.after(line);
  };
  // What stands beside the list on a wide screen, and unfolded beneath lines elsewhere.
  const place = () => {
    if (wide.matches) {
      records.forEach(fold);
      const shown = chosen || found[0] || null;
      const title = make("p", "", { className: "turn" });
      if (shown) {
        const at = found.indexOf(shown);
        const step = (text, to) => Object.assign(button(text, () => choose(to)), { disabled: !to });
        const link = make("a", "", { href: "#case=" + encodeURIComponent(shown.name()) });
        link.append(make("bdi", shown.name()));
        title.append(step("Previous", found[at - 1]), link, step("Next", found[at + 1]));
        pane.replaceChildren(title, nodeOf(shown));
        pane.setAttribute("aria-label", `${noun} ${shown.name()}`);
      } else {
        pane.replaceChildren();
      }
      pane.hidden = !shown;
    } else {
      pane.hidden = true;
      pane.replaceChildren();
      if (chosen && chosen.row?.isConnected) unfold(chosen);
    }
    const current = wide.matches ? chosen || found[0] : null;
    for (const record of found.slice(first, first + screen)) {
      const link = record.row.querySelector("th a");
      record.row.classList.toggle("current", record === current);
      if (record === current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
      if (wide.matches) link.removeAttribute("aria-expanded"); else link.setAttribute("aria-expanded", String(Boolean(record.unfolded)));
    }
  };
  const turn = (to) => {
    first = Math.max(0, Math.min(to, Math.floor((found.length - 1) / screen) * screen));
    const shown = found.slice(first, first + screen);
    records.forEach(fold);
    body.replaceChildren(...shown.map(rowOf));
    pager.hidden = found.length <= screen;
    says.textContent = `${first + 1} to ${first + shown.length} of ${found.length.toLocaleString("en")}`;
    back.disabled = first === 0;
    on.disabled = first + screen >= found.length;
    left.scrollTop = 0;
    place();
  };
  const arrange = () => {
    if (!order) return;
    const by = compare(columns[order.at].numeric);
    const place = new Map(records.map((record) => [record, record.texts()[order.at]]));
    found = [...found].sort((a, b) => order.direction * by(place.get(a), place.get(b)));
  };
  // Shows a case, wherever it is, also one that a search has hidden.
  const choose = (record, { folds = false } = {}) => {
    if (!record) return;
    if (!found.includes(record)) clear();
    const was = chosen;
    chosen = record;
    if (!wide.matches && folds && was && was !== record) fold(was);
    const at = found.indexOf(record);
    if (at < first || at >= first + screen) turn(Math.floor(at / screen) * screen);
    else place();
    record.row.scrollIntoView({ block: "nearest" });
    try {
      history.replaceState(null, "", "#case=" + encodeURIComponent(record.name()));
    } catch {
      // A page within another may have no history; it shows the case all the same.
    }
  };
  const follow = () => {
    const hash = location.hash.slice(1);
    let name = null;
    try {
      name = hash.startsWith("case=") ? decodeURIComponent(hash.slice(5)) : null;
    } catch {
      return;
    }
    const record = records.find((one) => name === null ? one.id === hash : one.name() === name);
    if (!record) return;
    choose(record);
    (wide.matches ? box : record.row).scrollIntoView();
  };
  const tools = toolsOf(columns, records, many, {
    searched: records.length > handful,
    changed: (now) => {
      found = now;
      if (!chosen || !found.includes(chosen)) chosen = null;
      arrange();
      turn(0);
    },
  });
  const clear = () => tools.querySelector(".counted button").click();

  box.replaceChildren(left, pane);
  left.append(tools, keys, scrolled, pager);
  box.classList.add("split");
  document.body.classList.add("listed");
  turn(0);

  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    const record = records.find((one) => one.row === row);
    if (!record) return;
    const link = event.target.closest("a");
    if (link && (event.ctrlKey || event.metaKey || event.shiftKey)) return;
    event.preventDefault();
    if (!wide.matches && record.unfolded) {
      fold(record);
      chosen = null;
      place();
    } else {
      choose(record);
    }
    // Whoever opens it by key goes on reading there.
    if (link && event.detail === 0 && wide.matches) pane.focus();
  });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const inList = event.target.closest(".lines") && !event.target.closest(".unfolded, .tools");
    const step = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1 } : {}) }[event.key];
    if (!step) return;
    const focused = inList ? found.find((one) => one.row && one.row.contains(event.target)) : null;
    const now = focused || chosen || (wide.matches ? found[0] : null);
    const next = found[now ? found.indexOf(now) + step : 0];
    if (!next) return;
    event.preventDefault();
    choose(next, { folds: true });
    if (!event.target.closest(".chosen")) next.row.querySelector("th a").focus();
  });
  wide.addEventListener("change", place);
  addEventListener("hashchange", follow);
  follow();
};
