// Names and stops that the theme's pages lack for who reads them by ear or by keyboard.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const nav of document.querySelectorAll("nav.md-nav[aria-labelledby]")) {
    const heading = nav.closest(".md-nav__item")?.querySelector(".md-ellipsis") ?? nav;
    const where = nav.classList.contains("md-nav--secondary") ? ", on this page" : "";
    nav.setAttribute("aria-label", `${heading.textContent.trim()}${where}`);
    nav.removeAttribute("aria-labelledby");
  }
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
});
