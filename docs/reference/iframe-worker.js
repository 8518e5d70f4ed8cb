// Search from a disk: browsers refuse workers to pages of file: addresses. A hidden frame runs the worker's script there.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      this.ready = new Promise((loaded) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          if (inside.document.scripts.length) return;
          const load = (address) =>
            new Promise((done, failed) => {
              const script = inside.document.createElement("script");
              script.src = address;
              script.onload = done;
              script.onerror = failed;
              inside.document.body.append(script);
            });
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          inside.importScripts = (...addresses) => addresses.reduce((before, one) => before.then(() => load(one)), Promise.resolve());
          load(new URL(url, location)).then(() => loaded(inside));
        });
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
