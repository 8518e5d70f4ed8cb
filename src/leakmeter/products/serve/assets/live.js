"use strict";
// The Live page. It shows what it is told: every number, and its colour, comes from the server.
(() => {
  const by = (id) => document.getElementById(id);
  const live = by("live");
  const status = by("status");
  const jobs = [];      // what runs, and what waits for it: its kind, and how it is ended
  let last = null;      // when the last of these is over
  let measured = null;  // the fields as they were measured
  const chosen = new Map(); // piece → "cut" or "swap"
  let spans = new Map();    // piece → its elements
  let cells = [];           // the context, in the stretches that the server tells of
  let leak = null;          // the disclosure that was chosen
  let disclosed = [];       // disclosures, each with its tokens and the pieces that it came from

  // Whether nobody has moved the page since a measurement began: what is found is then brought into view.
  let still = false;
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    addEventListener(kind, () => { still = false; }, { passive: true });
  }
  const bring = () => { if (still) by("result").scrollIntoView(); };

  const say = (text, wrong = false) => {
    status.textContent = text;
    status.classList.toggle("wrong", wrong);
  };
  const fields = () => ({ ...Object.fromEntries(new FormData(live)),
    max_new_tokens: live.elements.max_new_tokens.valueAsNumber || 0, seed: live.elements.seed.valueAsNumber || 0, turn: live.elements.turn.valueAsNumber || 0 });
  const paint = (el, heat) => {
    el.className = el.className.replace(/\bh\d+\b/g, "").trim();
    el.classList.add("h" + heat);
  };
  const token = (told) => {
    const el = document.createElement("b");
    el.textContent = told.text;
    el.title = told.nats + " nats";
    paint(el, told.heat);
    return el;
  };

  // One request at a time. A measurement, and another of the same kind, takes the place of those before, and the
  // server's work ends with them; anything else waits until they are done.
  const supersede = (kind) => {
    for (const job of jobs) if (kind === "measure" || job.kind === kind) {
      job.superseded = true;
      job.control.abort();
    }
  };
  const run = async (kind, path, body, on, doing, put) => {
    supersede(kind);
    const mine = { kind, control: new AbortController(), superseded: false };
    const before = last;
    let over;
    last = new Promise((resolve) => { over = resolve; });
    jobs.push(mine);
    by("cancel").disabled = false;
    const shared = {
      queued: ({ ahead }) => say(ahead ? `${ahead} before this in the queue …` : doing),
      started: () => say(doing),
      loading: ({ model }) => say(`Loading ${model} …`),
      round: ({ n_prompts }) => say(`${doing} ${n_prompts} prompts scored`),
    };
    try {
      await before;
      mine.control.signal.throwIfAborted();
      say(doing);
      await leakmeter.stream(path, body, { ...shared, ...on }, mine.control.signal);
      say("Done.");
    } catch (error) {
      if (!mine.superseded) {
        say(error.name === "AbortError" ? "Cancelled." : error.message, error.name !== "AbortError");
        if (put) put();
      }
    } finally {
      jobs.splice(jobs.indexOf(mine), 1);
      by("cancel").disabled = !jobs.length;
      over();
    }
  };

  const mark = () => {
    for (const [name, els] of spans) {
      for (const el of els) {
        const how = (el.dataset.pieces || name).split(" ").map((one) => chosen.get(one)).find(Boolean);
        el.classList.toggle("gone", how === "cut" && el.matches(".s"));
        el.classList.toggle("swapped", how === "swap");
        el.setAttribute("aria-pressed", String(Boolean(how)));
      }
    }
    by("back").disabled = !chosen.size;
    // It is about the answer to the whole context: what is advised of a new one stands with that.
    by("advice").hidden = chosen.size > 0;
    light([...chosen.keys()]);
  };

  // Light the disclosure that was chosen, or those that came from these pieces, and the words that they came from.
  const light = (names) => leaks.lightLeaks(by("seen"), leak !== null ? [leak]
    : disclosed.flatMap(({ pieces }, d) => pieces.some((name) => names.includes(name)) ? [d] : []), leak);

  const markLeaks = ({ tokens, marks, list, sources }) => {
    const at = document.activeElement.closest("#list [data-d], #answer [data-d]");
    const held = at && [at.closest("#list") ? "list" : "answer", at.dataset.d];
    disclosed = marks;
    if (leak >= marks.length) leak = null;
    const els = tokens.map(token);
    const shown = [];
    let n = 0;
    marks.forEach((one, d) => {
      const [first, end] = [Math.max(n, one.tokens[0]), one.tokens[1]];
      if (first >= end) return; // all its tokens are another's
      const el = document.createElement("span");
      const label = document.createElement("small");
      el.className = one.sensitive ? "leak strong" : "leak";
      el.dataset.d = d;
      label.className = "label";
      label.textContent = one.label;
      const space = /^ */.exec(els[first].textContent)[0];
      els[first].textContent = els[first].textContent.slice(space.length);
      el.append(...els.slice(first, end), label);
      shown.push(...els.slice(n, first), space, el);
      n = end;
    });
    by("answer").replaceChildren(...shown, ...els.slice(n));
    by("list").innerHTML = list; // rendered and escaped by the server, as its reports are
    cells.forEach((cell, place) => {
      if (cell.nodeType !== Node.ELEMENT_NODE) return;
      cell.replaceChildren(...(sources[place] || [{ text: cell.textContent, of: [] }]).map(({ text, of, sensitive }) => {
        if (!of.length) return text;
        const word = document.createElement("u");
        word.className = sensitive ? "source strong" : "source";
        word.dataset.d = of.join(" ");
        word.textContent = text;
        return word;
      }));
    });
    leaks.choosable(by("seen"));
    light([...chosen.keys()]);
    const again = held && by(held[0]).querySelector(`[data-d="${held[1]}"] button`);
    if (again) again.focus({ preventScroll: true });
  };

  const lay = ({ segments, values, response }) => {
    spans = new Map();
    chosen.clear();
    disclosed = [];
    leak = null;
    by("result").hidden = false;
    by("result").classList.remove("so-far");
    for (const id of ["found", "list", "advice", "after", "plan", "rest"]) by(id).replaceChildren();
    by("mixture").hidden = true;
    by("kept").textContent = by("floor").textContent = "";
    const add = (name, el) => spans.set(name, [...(spans.get(name) || []), el]);
    let first = true;
    cells = segments.map(({ text, pieces }) => {
      if (!pieces.length) return document.createTextNode(text);
      const el = document.createElement("span");
      el.className = "s h0";
      el.textContent = text;
      el.dataset.pieces = pieces.join(" ");
      el.setAttribute("role", "button");
      el.setAttribute("aria-pressed", "false");
      el.tabIndex = first ? 0 : -1;
      first = false;
      for (const name of pieces) add(name, el);
      return el;
    });
    by("context").replaceChildren(...cells);
    by("values").hidden = !values.length;
    by("values").replaceChildren("Said several times: ", ...values.map(({ name, text, n }) => {
      const el = document.createElement("button");
      el.type = "button";
      el.dataset.pieces = name;
      el.append(text, ` (${n} mentions)`);
      add(name, el);
      return el;
    }));
    by("answer").textContent = response;
    mark();
  };

  const piece = ({ name, nats, heat, exact, posterior }) => {
    for (const el of spans.get(name) || []) {
      // Of overlapping pieces a stretch has the colour of the one that was told last with more.
      if (exact === undefined || !el.dataset.heat || Number(el.dataset.heat) <= heat || el.dataset.of === name || !exact) {
        paint(el, heat);
        el.dataset.heat = heat;
        el.dataset.of = name;
      }
      el.classList.toggle("screened", exact === false);
      el.title = `${name}: ${nats} nats${exact === false ? ", screened only" : ""}${posterior ? `, posterior ${posterior}` : ""}`;
    }
  };

  const SO_FAR = "So far, before calibration: what is grey is no finding yet, and what is listed may still change.";
  const measure = async () => {
    const body = fields();
    measured = null;
    still = true;
    let n = 0, of = 0, drawn = false;
    await run("measure", "/live/measure", body, {
      token: (told) => {
        if (!drawn) {
          drawn = true;
          by("result").hidden = false;
          by("result").classList.remove("so-far");
          for (const id of ["context", "answer", "found", "list", "advice", "after", "plan", "rest"]) by(id).replaceChildren();
          by("values").hidden = true;
          bring();
          by("floor").textContent = "An answer is being drawn, each token with its loss.";
        }
        by("answer").append(token(told));
        say("Drawing an answer …");
      },
      pieces: (told) => {
        lay(told);
        of = spans.size;
        bring();
        measured = { ...body, response: told.response };
      },
      whole: ({ nats }) => {
        by("floor").textContent = SO_FAR;
        by("result").classList.add("so-far");
        say(`The whole context: ${nats} nats. Scoring its pieces …`);
      },
      calibrating: ({ step, of: steps, what }) => {
        const now = `Calibrating: ${step} of ${steps} steps, ${what}`;
        by("floor").textContent = `${now}. ${SO_FAR}`;
        say(`${now} …`);
      },
      disclosed: markLeaks,
      piece: (told) => {
        piece(told);
        if (told.exact) n += 1;
        say(told.exact ? `${n} of ${of} pieces scored so far` : "Screening; exact values follow …");
      },
      done: (told) => {
        for (const el of by("context").querySelectorAll(".s")) delete el.dataset.heat;
        // What was only screened keeps its number, and has no colour: it is no exact value.
        for (const el of by("context").querySelectorAll(".s.screened")) paint(el, 0);
        for (const one of [...told.pieces].sort((a, b) => a.heat - b.heat)) piece(one);
        markLeaks(told);
        by("found").innerHTML = told.found; // rendered and escaped by the server, as its reports are
        by("advice").innerHTML = told.advice;
        by("rest").innerHTML = told.rest;
        by("result").classList.remove("so-far");
        by("floor").textContent = `Calibrated. ${told.changed}${told.findings} Noise floor: ${told.floor} nats.`;
        bring();
        if (told.drawn) {
          live.elements.response.value = told.response;
          keep();
        }
      },
    }, "Measuring …");
  };

  // What is left of the context, to be used elsewhere.
  const take = (panel, text) => {
    const row = document.createElement("p");
    row.className = "take";
    const button = (label, act) => {
      const el = document.createElement("button");
      el.type = "button";
      el.textContent = label;
      el.addEventListener("click", () => act(el));
      row.append(el, " ");
    };
    button("Copy the redacted text", async (el) => {
      try {
        await navigator.clipboard.writeText(text);
        el.textContent = "Copied";
      } catch { say("This browser did not let the page copy; download the text instead", true); }
    });
    button("Download it", () => {
      const to = document.createElement("a");
      to.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
      to.download = "redacted.txt";
      to.click();
      setTimeout(() => URL.revokeObjectURL(to.href), 60000);
    });
    const advice = panel.querySelector(".advice");
    if (advice) advice.after(row);
    else panel.append(row);
  };

  const change = async () => {
    mark();
    by("after").replaceChildren();
    if (!chosen.size) return supersede("cut");
    const names = (how) => [...chosen].filter(([, was]) => was === how).map(([name]) => name);
    const box = by("after");
    const answer = document.createElement("p");
    answer.className = "text tokens";
    const left = document.createElement("p");
    await run("cut", "/live/cut", { ...measured, cut: names("cut"), swap: names("swap") }, {
      left: ({ nats, before }) => {
        left.textContent = `The same answer: ${nats} nats are left of ${before}. A new answer is being drawn:`;
        box.replaceChildren(left, answer);
      },
      token: (told) => answer.append(token(told)),
      searching: () => say("Searching the new answer …"),
      done: ({ html, text }) => {
        box.innerHTML = html;
        take(box, text);
      },
    }, "Scoring the answer without it …", () => { chosen.clear(); mark(); box.replaceChildren(); });
  };

  const choose = (el) => {
    const names = el.dataset.pieces.split(" ");
    const how = new FormData(by("edit")).get("mode");
    const name = names.find((one) => chosen.has(one)) || el.dataset.of || names[0];
    if (chosen.get(name) === how) chosen.delete(name);
    else chosen.set(name, how);
    change();
  };
  by("seen").addEventListener("click", (event) => {
    const el = event.target.closest("#answer .leak, #list .choose");
    if (!el) return;
    const [d] = leaks.leaksOf(el.closest("[data-d]"));
    leak = leak === d ? null : d;
    light([...chosen.keys()]);
  });
  for (const [kind, names] of [["pointerover", (el) => el.dataset.pieces.split(" ")], ["pointerout", () => []],
    ["focusin", (el) => el.dataset.pieces.split(" ")], ["focusout", () => []]]) {
    by("context").addEventListener(kind, (event) => {
      const el = event.target.closest(".s");
      if (el && leak === null) light([...chosen.keys(), ...names(el)]);
    });
  }
  by("result").addEventListener("click", (event) => {
    const el = event.target.closest("#context .s, #values button");
    if (el && measured) choose(el);
  });
  by("context").addEventListener("keydown", (event) => {
    const el = event.target.closest(".s");
    if (el && measured && (event.key === "Enter" || event.key === " ")) choose(el);
  });
  by("back").addEventListener("click", () => { chosen.clear(); change(); });
  by("edit").addEventListener("submit", (event) => event.preventDefault());

  live.addEventListener("submit", (event) => { event.preventDefault(); measure(); });
  by("cancel").addEventListener("click", () => { for (const job of jobs) job.control.abort(); });

  const asking = (id, of) => by(id).addEventListener("submit", (event) => {
    event.preventDefault();
    if (measured) of(event.target.elements);
  });
  asking("redact", (elements) => {
    by("plan").replaceChildren();
    const goal = elements.goal.value;
    run("redact", "/live/redact", { ...measured, goal, max_loss: elements.max_loss.valueAsNumber }, {
      done: ({ html, text, cut }) => {
        by("plan").innerHTML = html;
        if (cut.length) take(by("plan"), text);
      },
    }, "Looking for what to cut …");
  });
  const goal = by("redact").elements.goal;
  const shown = () => { by("limit").hidden = goal.value !== goal.options[0].value; };
  goal.addEventListener("change", shown);
  shown();
  asking("keep", (elements) => {
    by("kept").textContent = "";
    run("keep", "/live/keep", { ...measured, name: elements.name.value }, {
      done: ({ id, nats }) => {
        const to = document.createElement("a");
        to.href = "/runs/" + id;
        to.textContent = `run ${id.slice(0, 12)}`;
        by("kept").replaceChildren("Kept as ", to, `: ${nats} nats.`);
      },
    }, "Measuring it into a run …");
  });

  let mixes = null;
  const shares = (kind) => {
    const one = mixes[kind][by(kind).valueAsNumber];
    by("cost").textContent = one.said;
    by(kind).setAttribute("aria-valuetext", one.said);
    by("tokens").replaceChildren(...one.rows.map(({ token: text, shares: told, width }) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.append(document.createElement("bdi"));
      head.firstChild.textContent = text;
      const cells = told.map((share) => {
        const cell = document.createElement("td");
        cell.className = "n";
        cell.textContent = share;
        return cell;
      });
      const bar = document.createElement("td");
      bar.className = "bar";
      bar.append(document.createElement("i"));
      bar.firstChild.className = `share w${width}`;
      row.append(head, cells[0], bar, ...cells.slice(1));
      return row;
    }));
  };
  asking("mix", (elements) => run("mix", "/live/mix", { ...measured, at: elements.at.valueAsNumber || 0 }, {
    done: (told) => {
      mixes = told;
      by("mixture").hidden = false;
      elements.at.max = told.n_tokens;
      for (const kind of ["lambda", "epsilon"]) by(kind).max = told[kind].length - 1;
      by("lambda").value = told.lambda.findIndex((one) => one.value === 1);
      by("epsilon").value = told.epsilon.length - 1;
      shares("lambda");
    },
  }, "Asking for the next token …"));
  for (const kind of ["lambda", "epsilon"]) by(kind).addEventListener("input", () => shares(kind));

  // -- what is put in: kept in this tab over a reload; samples; and files, which the browser reads itself
  const TEXTS = ["context", "query", "response"];
  const keep = () => {
    try {
      sessionStorage.setItem("live", JSON.stringify(Object.fromEntries(new FormData(live))));
    } catch { /* a text too long for it is not kept */ }
  };
  live.addEventListener("input", keep);
  by("clear").addEventListener("click", () => {
    sessionStorage.removeItem("live");
    for (const name of TEXTS) live.elements[name].value = "";
    by("result").hidden = true;
    measured = null;
    say("Cleared.");
  });
  const isEmpty = () => TEXTS.every((name) => !live.elements[name].value);
  const fill = async (sample, allowed = () => true) => {
    const texts = await (await fetch(`/live/samples/${sample}`)).json();
    if (!allowed()) return; // somebody has typed since
    for (const name of TEXTS) live.elements[name].value = texts[name];
    keep();
  };
  by("sample").addEventListener("change", (event) => { if (event.target.value) fill(event.target.value); });
  const read = async (file) => {
    if (!file) return;
    if (file.size > 1e6) return say(`'${file.name}' has more than 1 MB; measure it with the command line`, true);
    live.elements.context.value = await file.text();
    keep();
    say(`Read ${file.name}.`);
  };
  by("file").addEventListener("change", (event) => read(event.target.files[0]));
  const box = live.elements.context;
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    box.classList.remove("over");
    read(event.dataTransfer.files[0]);
  });
  const kept = JSON.parse(sessionStorage.getItem("live") || "null");
  if (kept) for (const [name, value] of Object.entries(kept)) {
    if (live.elements[name]) live.elements[name].value = value;
  } else if (isEmpty()) fill(by("sample").options[1].value, isEmpty);
})();
