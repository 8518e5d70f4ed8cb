// What the other files share: the scale and digits of report/scale.py, whose constants are the body's data attributes.
const { knee, top: topNats, bins, screen, rows: firstRows, handful, chips: mostChips } = Object.fromEntries(
  Object.entries(document.body.dataset).map(([name, value]) => [name, Number(value)]));
const position = (n) => n > 0 ? Math.min(1, Math.log1p(n / knee) / Math.log1p(topNats / knee)) : 0;
const heat = (n, floor) => n > floor ? Math.min(bins, 1 + Math.floor(position(n) * bins)) : 0;
const cell = (n) => {
  if (n === null) return "–";
  const size = Math.abs(n);
  const text = size === 0 ? "0" : size < 0.0095 ? size.toExponential(0) : size.toFixed(2);
  return (n < 0 ? "−" : "") + text;
};
const signed = (n) => (n > 0 ? "+" : "") + cell(n);
const size = (x) => x === null ? 0 : Math.abs(x);

const tip = document.getElementById("tip");
const states = new Map();
const make = (tag, text, props = {}) => Object.assign(document.createElement(tag), { textContent: text }, props);
const button = (text, act) => {
  const made = make("button", text, { type: "button" });
  made.addEventListener("click", act);
  return made;
};
const paint = (el, bin) => {
  el.className = el.className.replace(/\bh\d+\b/, "h" + bin);
};
const units = (el) => (el.dataset.u || "").split(" ").filter(Boolean).map(Number);
const values = (el) => (el.dataset.v || "").split(" ").filter(Boolean).map(Number);
