"use strict";
// What every page of the server shares: requests of our own, streams of events, and the buttons of the footer.
const leakmeter = (() => {
  const post = (path, body, signal) => fetch(path, {
    method: "POST", headers: { "content-type": "application/json", "x-leakmeter": "1" }, body: JSON.stringify(body), signal });
  const why = async (answer) => (await answer.text()).replace(/^leakmeter: /, "").trim() || `error ${answer.status}`;

  // Server-sent events of a request that posts, which EventSource cannot; on[name](data) for each.
  const stream = async (path, body, on, signal) => {
    const answer = await post(path, body, signal);
    if (!answer.ok) throw new Error(await why(answer));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "", ended = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const one of events) {
        const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(one) || [];
        if (!name) continue;
        const told = JSON.parse(data);
        if (["done", "failed", "cancelled"].includes(name)) ended = name;
        if (name === "failed") throw new Error(told.error);
        if (on[name]) on[name](told);
      }
    }
    if (ended !== "done") throw new Error(ended === "cancelled" ? "cancelled" : "the server went away; start it again");
  };

  document.addEventListener("click", async (event) => {
    const to = event.target.closest("[data-post]");
    if (!to) return;
    try {
      const answer = await post(to.dataset.post, {});
      if (!answer.ok) throw new Error(await why(answer));
      const told = await answer.json();
      if (told.link) document.getElementById("link").textContent = told.link;
      else location.assign("/");
    } catch (error) {
      document.getElementById("link").textContent = error.message;
    }
  });
  return { post, stream, why };
})();
window.leakmeter = leakmeter;
