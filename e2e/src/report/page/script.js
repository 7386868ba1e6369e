// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
// A line with the time under the mouse, and opening the scenario that a link points to. The page says everything without.
for (const svg of document.querySelectorAll("figure svg")) {
  const cursor = svg.querySelector(".cursor"), line = cursor.firstElementChild, text = cursor.lastElementChild;
  const left = +svg.dataset.left, right = +svg.dataset.right, span = +svg.dataset.span;
  svg.addEventListener("mousemove", (event) => {
    const x = (event.offsetX / svg.clientWidth) * svg.viewBox.baseVal.width;
    const inside = x >= left && x <= right;
    cursor.toggleAttribute("hidden", !inside);
    cursor.style.display = inside ? "" : "none";
    line.setAttribute("x1", x); line.setAttribute("x2", x);
    text.setAttribute("x", Math.min(x, right - 24));
    text.textContent = (((x - left) / (right - left)) * span).toFixed(2) + " s";
  });
  svg.addEventListener("mouseleave", () => { cursor.style.display = "none"; });
}
function show() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) { target.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", show);
show();
