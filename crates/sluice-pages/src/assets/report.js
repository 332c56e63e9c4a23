// Replaces the content of a live page by what the server sends (server-sent events). Without it the page is as it was loaded.
"use strict";
(() => {
  // On a phone the navigation scrolls by itself.
  const current = document.querySelector("nav a[aria-current]");
  if (current) current.scrollIntoView({ inline: "center", block: "nearest" });
  const content = document.getElementById("content");
  const shown = document.getElementById("liveness");
  if (!content || !content.dataset.live || !window.EventSource) return;
  let source = null;
  const say = (text) => { if (shown) shown.textContent = text ? " · " + text : ""; };
  // A button that is about to be pressed, and text that is selected, stay.
  const isUsed = () => content.contains(document.activeElement) && document.activeElement !== content
    || !document.getSelection().isCollapsed;
  const open = () => {
    say("connecting");
    source = new EventSource(content.dataset.live);
    source.addEventListener("content", (event) => {
      say("live");
      if (!isUsed()) content.innerHTML = event.data;
    });
    source.addEventListener("error", () => say("not connected"));
  };
  // A page that nobody sees asks for nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) { source.close(); source = null; say(""); }
    else if (!document.hidden && !source) open();
  });
  open();
})();
