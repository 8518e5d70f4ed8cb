"use strict";
// The pages of runs: numbers that come later, progress, names and copies.
(() => {
  const at = (id) => document.getElementById(id);
  const { post, stream, why } = window.leakmeter;
  const say = (id, text, wrong) => { const to = at(id); to.textContent = text; to.classList.toggle("wrong", Boolean(wrong)); };
  const posted = async (path, body, signal) => {
    const answer = await post(path, body, signal);
    if (!answer.ok) throw new Error(await why(answer));
    return answer;
  };

  // One after the other: the server reads whole runs for these.
  (async () => {
    for (const cell of document.querySelectorAll("[data-found]")) {
      try {
        const told = await (await fetch(cell.dataset.found)).json();
        cell.textContent = told.headline || told.number;
      } catch { cell.textContent = ""; }
    }
  })();

  const list = at("list");
  if (list) {
    const count = () => {
      const n = list.querySelectorAll("[name=run]:checked").length;
      at("compare").disabled = n !== 2;
      at("chosen").textContent = n === 2 ? "" : `Choose two runs; ${n} chosen.`;
    };
    list.addEventListener("change", count);
    count();
  }

  const toRun = (run) => location.assign(`/runs/${run}`);
  const told = (begun) => ({
    queued: ({ ahead }) => say("status", `${ahead} ahead`),
    loading: ({ model }) => say("status", `Loading ${model} …`),
    begun: ({ run }) => begun(run),
    case: ({ done, of }) => say("status", `${done} of ${of} cases measured`),
    done: ({ run }) => toRun(run),
  });

  const measure = at("measure");
  if (measure) measure.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(measure));
    const button = measure.querySelector("button.primary");
    button.disabled = true;
    say("status", "Waiting …");
    try {
      const text = await given.file.text();
      await stream("/runs/measure", { ...given, file: given.file.name, text, max_new_tokens: Number(given.max_new_tokens) },
        told((run) => toRun(run)));
    } catch (error) { say("status", error.message, true); }
    button.disabled = false;
  });

  const watch = at("watch");
  if (watch) {
    const path = `/runs/${watch.dataset.run}`;
    const look = async () => {
      try {
        const { state, done, of } = await (await fetch(`${path}/progress`)).json();
        if (state === "dropped") {
          say("status", "Cancelled before the first case was measured: nothing is kept.");
          [at("cancel").hidden, at("continue").hidden] = [true, false];
          return;
        }
        if (state !== watch.dataset.state) return location.reload();
        say("status", `${done}${of ? ` of ${of}` : ""} parts measured`);
        const bar = watch.querySelector("progress");
        if (of) { bar.max = of; bar.value = done; }
      } catch { say("status", "the server went away; start it again", true); }
      setTimeout(look, 1500);
    };
    setTimeout(look, 1500);
    at("cancel").addEventListener("click", async () => {
      try { await posted(`${path}/cancel`, {}); say("status", "Ending …"); }
      catch (error) { say("status", error.message, true); }
    });
    at("continue").addEventListener("click", async () => {
      try { await stream(`${path}/continue`, {}, told(() => location.reload())); }
      catch (error) { say("status", error.message, true); }
    });
  }

  const rename = at("rename");
  if (rename) rename.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const { name } = await (await posted(`/runs/${rename.dataset.run}/rename`, { name: rename.name.value })).json();
      at("called").textContent = name;
      say("renamed", "Renamed.");
    } catch (error) { say("renamed", error.message, true); }
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = at(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected: copy it with the keyboard";
    }
  });
})();
