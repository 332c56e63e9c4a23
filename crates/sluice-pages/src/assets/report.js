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
      if (isUsed()) return;
      // What the visitor has opened or closed stays so.
      const chosen = new Map([...content.querySelectorAll("details[id]")].map((part) => [part.id, part.open]));
      content.innerHTML = event.data;
      for (const part of content.querySelectorAll("details[id]")) if (chosen.has(part.id)) part.open = chosen.get(part.id);
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
