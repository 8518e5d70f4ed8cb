"use strict";
// The Doctor page: one examination at a time.
(() => {
  const at = (id) => document.getElementById(id);
  const form = at("examine");
  let now = null;
  const say = (text, wrong = false) => { at("status").textContent = text; at("status").classList.toggle("wrong", wrong); };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (now) now.abort();
    const mine = now = new AbortController();
    at("cancel").disabled = false;
    at("found").replaceChildren();
    say("Waiting …");
    try {
      await window.leakmeter.stream("/doctor/examine", { model: form.model.value }, {
        queued: ({ ahead }) => say(`${ahead} ahead`),
        loading: ({ model }) => say(`Loading ${model} …`),
        examining: ({ model }) => say(`Examining ${model} …`),
        done: ({ html }) => { at("found").innerHTML = html; say("Done."); }, // made by the server, every text escaped
      }, mine.signal);
    } catch (error) {
      if (mine === now) say(error.name === "AbortError" ? "Cancelled." : error.message, error.name !== "AbortError");
    }
    if (mine === now) { now = null; at("cancel").disabled = true; }
  });
  at("cancel").addEventListener("click", () => now && now.abort());
})();
