// What a page does when it is opened and when it is printed.
const casesBox = document.getElementById("cases");
if (casesBox) listOfCases(casesBox);
prepareTables(document);
document.querySelectorAll("main .attribution").forEach(open);
document.addEventListener("toggle", (event) => {
  if (event.target.open) event.target.querySelectorAll(".attribution").forEach(open);
}, true);
// A link to what is folded opens it.
const reveal = () => {
  const fold = document.getElementById(location.hash.slice(1))?.closest("details");
  if (fold) fold.open = true;
};
addEventListener("hashchange", reveal);
reveal();
// Paper has what is open, and of a case that is shown its settings too; a thousand cases stay lines.
addEventListener("beforeprint", () => {
  for (const box of document.querySelectorAll("details:not(.more, [open])")) {
    box.open = true;
    box.dataset.shut = "";
  }
});
addEventListener("afterprint", () => {
  for (const box of document.querySelectorAll("details[data-shut]")) {
    box.open = false;
    delete box.dataset.shut;
  }
});
