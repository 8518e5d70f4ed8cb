"use strict";
// The Doctor page: one examination at a time, each check told of before it is made.
(() => {
  const by = (id) => document.getElementById(id);
  const status = by("status"), bar = by("progress");
  let now = null; // what runs: its AbortController

  const say = (text, wrong = false) => {
    status.textContent = text;
    status.classList.toggle("wrong", wrong);
  };

  by("doctor").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (now) now.abort();
    const mine = now = new AbortController();
    by("cancel").disabled = false;
    by("examined").replaceChildren();
    bar.hidden = false;
    bar.value = 0;
    say("Examining …");
    try {
      await leakmeter.stream("/doctor/run", { model: new FormData(event.target).get("model") }, {
        queued: ({ ahead }) => say(ahead ? `${ahead} before this in the queue …` : "Examining …"),
        started: () => say("Examining …"),
        loading: ({ model }) => say(`Loading ${model} …`),
        check: ({ name, number, of }) => {
          bar.max = of;
          bar.value = number - 1;
          say(`Check ${number} of ${of}: ${name} …`);
        },
        done: ({ html }) => { by("examined").innerHTML = html; }, // rendered and escaped by the server, as its reports are
      }, mine.signal);
      say("Done.");
      by("examined").focus();
    } catch (error) {
      if (now === mine) say(error.name === "AbortError" ? "Cancelled." : error.message, error.name !== "AbortError");
    } finally {
      if (now === mine) {
        now = null;
        by("cancel").disabled = true;
        bar.hidden = true;
      }
    }
  });
  by("cancel").addEventListener("click", () => { if (now) now.abort(); });
})();
