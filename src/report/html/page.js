"use strict";
// The table sorts by any column. Without this script it stands as it was written: what failed comes first.
const body = document.querySelector("tbody");
const heads = Array.from(document.querySelectorAll("th[data-sort]"));
const value = (row, index, kind) => {
  const cell = row.cells[index];
  return kind === "text" ? cell.textContent.trim().toLowerCase() : Number(cell.dataset.value);
};
const sort = (head, index) => {
  // Numbers begin with the largest: that is what a person looks for first.
  const kind = head.dataset.sort;
  const first = kind === "number" ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = head.getAttribute("aria-sort") === first ? other : first;
  for (const each of heads) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const rows = Array.from(body.rows, row => [value(row, index, kind), row]);
  rows.sort(([a], [b]) => sign * (a > b ? 1 : b > a ? -1 : 0));
  body.append(...rows.map(([, row]) => row));
};
heads.forEach((head, index) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  button.addEventListener("click", () => sort(head, index));
  head.replaceChildren(button);
});
// An address that leads into something folded opens it, also where the browser does not do so itself.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", reveal);
if (location.hash) reveal();
