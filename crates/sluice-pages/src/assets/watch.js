// WATCH in the browser: asks for events, and shows them while they come. Without this script the form shows them as plain text.
"use strict";
(() => {
  // Events that are kept for searching and saving, and those of them that the page shows.
  const KEPT_MAX = 100000, KEPT_BYTES_MAX = 64 << 20, SHOWN_MAX = 4000, PER_FRAME = 400;
  const form = document.getElementById("watch"), lines = document.getElementById("lines");
  if (!form || !window.fetch || !window.ReadableStream) return;
  const by = (id) => document.getElementById(id);
  const bar = by("bar"), state = by("state"), search = by("search"), picture = by("waterfall");
  const buttons = { start: by("start"), pause: by("pause"), clear: by("clear"), save: by("save"), json: by("save-json"), all: by("all") };
  bar.hidden = lines.hidden = false;
  document.querySelectorAll("[data-script]").forEach((element) => { element.hidden = false; });
  form.querySelectorAll("[data-plain]").forEach((element) => { element.hidden = true; });
  // Without a script the one-shot is usual, because such browsers show a page when it is complete.
  form.elements.once.checked = form.elements.once.hasAttribute("data-asked");

  let kept = [], keptBytes = 0, dropped = 0, lost = 0, total = 0;
  let waiting = [], frame = 0, hidden = 0;
  let only = null, lit = null, text = "", isPaused = false, request = null, outcome = "", isReplaced = false;
  const nodes = new Map();

  // What the server sends ------------------------------------------------------------------------------------------------

  const query = () => {
    const pairs = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value !== "") pairs.append(name, value);
    return pairs;
  };

  const start = async () => {
    const asked = query();
    by("asked").open = false;
    const own = request = new AbortController();
    const address = new URL(location.href);
    address.search = asked;
    history.replaceState(null, "", address);
    outcome = "asking the server …";
    isReplaced = false;
    show();
    try {
      const response = await fetch("watch-events?" + asked, { signal: own.signal, cache: "no-store" });
      if (!response.ok) throw new Error(await refusal(response));
      outcome = "";
      show();
      await read(response.body.getReader());
      // Whoever may still watch goes on.
      if (isReplaced && request === own) return start();
      if (!outcome) outcome = "the connection was closed";
    } catch (error) {
      outcome = own.signal.aborted ? "stopped" : error.message;
      state.classList.toggle("failed", !own.signal.aborted);
    }
    if (request === own) request = null;
    show();
  };

  const stop = () => { if (request) request.abort(); };

  const refusal = async (response) => {
    const body = (await response.text()).trim();
    return /^text\/plain/.test(response.headers.get("Content-Type") || "") && body ? body : `the server answers ${response.status}`;
  };

  // Server-sent events, one after the other.
  const read = async (reader) => {
    const decoder = new TextDecoder();
    let rest = "";
    state.classList.remove("failed");
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      let end;
      let from = 0;
      while ((end = rest.indexOf("\n\n", from)) >= 0) {
        take(rest.slice(from, end));
        from = end + 2;
      }
      rest = rest.slice(from);
    }
  };

  const take = (message) => {
    let name = "", data = "";
    for (const line of message.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (name === "events") JSON.parse(data).forEach(keep);
    else if (name === "notice") notice(JSON.parse(data));
  };

  const notice = (said) => {
    if ("watching" in said) keep({ notice: "watching " + said.watching });
    if ("lost" in said) {
      lost += said.lost;
      keep({ notice: `${said.lost} events lost here, because they came faster than they were read`, isLost: true });
    }
    if ("ended" in said) {
      isReplaced = said.ended === "replaced";
      outcome = said.ended === "once" ? "the request has ended" : isReplaced ? "the configuration was replaced" : "the server ends";
      keep({ notice: "end: " + outcome });
    }
  };

  // What is kept and shown -----------------------------------------------------------------------------------------------

  const size = (event) => 200 + (event.text || event.notice || "").length * 2;

  const keep = (event) => {
    kept.push(event);
    keptBytes += size(event);
    total += event.notice ? 0 : 1;
    if (kept.length > KEPT_MAX || keptBytes > KEPT_BYTES_MAX) {
      // Many at once, because removing from the front is slow.
      const gone = kept.splice(0, Math.max(1, Math.ceil(kept.length / 10)));
      gone.forEach((old) => { keptBytes -= size(old); });
      dropped += gone.length;
    }
    if (!isPaused && matches(event)) {
      waiting.push(event);
      if (waiting.length > SHOWN_MAX * 2) {
        hidden += waiting.length - SHOWN_MAX;
        waiting = waiting.slice(-SHOWN_MAX);
      }
    }
    if (!frame) frame = requestAnimationFrame(draw);
  };

  const line = (event) => event.notice ? "-- " + event.notice
    : `${event.time.slice(11, 26)} ${event.module.padEnd(9)} ${String(event.number).padStart(6, "0")} ${event.item.padEnd(15)} `
      + event.text.replace(/\n$/, "").replace(/\n/g, "\n" + " ".repeat(49));

  // A connection and its requests are one visit.
  const visit = (event) => event.connection ?? event.number;
  const matches = (event) => (only === null || event.number === only || event.connection === only)
    && (text === "" || line(event).toLowerCase().includes(text));

  // Neighbouring numbers get colours far apart.
  const hue = (number) => Math.round(number * 137.508) % 360;

  const element = (tag, name, content) => {
    const made = document.createElement(tag);
    made.className = name;
    made.textContent = content;
    return made;
  };

  // On a phone a row of a hex dump has 8 bytes instead of 16, and a phase of the timing its duration and its description.
  const narrow = window.matchMedia("(max-width: 48rem)");
  const DUMP = /^([0-9a-f]{6}) ((?: [0-9a-f]{2}| {3}){8})((?: [0-9a-f]{2}| {3}){8})  (.{1,8})(.{0,8})$/gm;
  const halves = (row, offset, one, other, first, second) => `${offset} ${one}  ${first}`
    + (second ? `\n${(parseInt(offset, 16) + 8).toString(16).padStart(6, "0")} ${other}  ${second}` : "");
  const shownText = (event) => {
    const text = event.text.replace(/\n$/, "");
    if (!narrow.matches) return text;
    if (!event.phases) return text.replace(DUMP, halves);
    return [text.split("\n")[0], ...event.phases.map((phase) => `${duration(phase.end_us - phase.begin_us).padStart(9)}  ${phase.about}`)].join("\n");
  };

  const node = (event) => {
    if (event.notice) return element("div", event.isLost ? "notice lost" : "notice", event.notice);
    // The prefix keeps the names of items apart from the classes of the other pages.
    const row = element("div", "event item-" + event.item, "");
    row.style.setProperty("--hue", hue(visit(event)));
    if (event.item === "errors") row.classList.add("bad");
    row.dataset.number = event.number;
    const number = element("button", "number", event.connection ? `${event.connection}/${event.number}` : event.number);
    number.title = event.id ? `only this request (id ${event.id})` + (event.connection ? `, on connection ${event.connection}` : "")
      : "only this connection and its requests";
    const time = element("span", "time", event.time.slice(11, 26));
    time.title = `${event.time}, ${event.since_us / 1000} ms after its beginning`;
    row.append(time, element("span", "module", event.module), number, element("span", "item", event.item),
      element("pre", "text", shownText(event)));
    if (!nodes.has(event.number)) nodes.set(event.number, new Set());
    nodes.get(event.number).add(row);
    return row;
  };

  const remove = (row) => {
    const same = nodes.get(Number(row.dataset.number));
    if (same && same.delete(row) && same.size === 0) nodes.delete(Number(row.dataset.number));
    row.remove();
  };

  const isAtEnd = () => document.documentElement.scrollHeight - window.scrollY - window.innerHeight < 60;

  // The page follows the events until the visitor scrolls up, and again from the end on. What is drawn gets its height later than the page is scrolled.
  let isFollowing = true, scrolledTo = 0;
  const toEnd = () => {
    window.scrollTo(0, document.documentElement.scrollHeight);
    scrolledTo = window.scrollY;
  };
  window.addEventListener("scroll", () => {
    if (window.scrollY < scrolledTo - 4) isFollowing = false;
    if (isAtEnd()) isFollowing = true;
    scrolledTo = window.scrollY;
  });
  const follow = () => {
    if (!isFollowing || only !== null || kept.length === 0) return;
    toEnd();
    requestAnimationFrame(() => { if (isFollowing) toEnd(); });
  };

  const draw = () => {
    frame = 0;
    const batch = document.createDocumentFragment();
    for (const event of waiting.splice(0, PER_FRAME)) batch.append(node(event));
    lines.append(batch);
    while (lines.childElementCount > SHOWN_MAX) {
      remove(lines.firstElementChild);
      hidden++;
    }
    if (waiting.length) frame = requestAnimationFrame(draw);
    follow();
    show();
  };

  // Shows what is kept again, after a search or another choice.
  const redraw = () => {
    if (frame) cancelAnimationFrame(frame);
    frame = 0;
    nodes.clear();
    lines.replaceChildren();
    const found = kept.filter(matches);
    hidden = Math.max(0, found.length - SHOWN_MAX);
    waiting = found.slice(-SHOWN_MAX);
    draw();
    waterfall();
  };

  const count = (number, unit) => `${number.toLocaleString("en")} ${unit}${number === 1 ? "" : "s"}`;

  const show = () => {
    const said = [];
    if (request && !outcome) said.push(isPaused ? "paused: events are kept" : "watching");
    if (outcome) said.push(outcome);
    said.push(count(total, "event"));
    if (hidden) said.push(`the last ${SHOWN_MAX.toLocaleString("en")} are shown, older ones are found by a search and saved`);
    if (dropped) said.push(`${count(dropped, "oldest event")} dropped`);
    if (lost) said.push(`${count(lost, "event")} lost`);
    if (only !== null) said.push(`only number ${only}`);
    state.textContent = said.join(" · ");
    buttons.start.textContent = request ? "Stop" : "Start";
    buttons.pause.textContent = isPaused ? "Continue" : "Pause";
    buttons.pause.setAttribute("aria-pressed", String(isPaused));
    buttons.all.hidden = only === null;
    buttons.save.disabled = buttons.json.disabled = buttons.clear.disabled = kept.length === 0;
  };

  const choose = (number) => {
    only = number;
    lit = null;
    redraw();
    // The picture stands above the lines, where a visitor at their end does not see it.
    if (picture.firstChild) picture.scrollIntoView({ block: "start" });
  };

  const save = (type, name, content) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(content, { type }));
    link.download = name + (kept[0] && kept[0].time ? kept[0].time : new Date().toISOString()).slice(0, 19).replace(/\D/g, "");
    link.download += type === "text/plain" ? ".txt" : ".jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  // A picture of one request: where its time went --------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";
  const svg = (tag, attributes, content) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (content !== undefined) made.textContent = content;
    return made;
  };

  const duration = (us) => us < 1000 ? `${Math.round(us)} µs` : us < 1e6 ? `${(us / 1000).toFixed(us < 1e4 ? 2 : 1)} ms` : `${(us / 1e6).toFixed(2)} s`;

  // Phases from the timing event, or else the times between the events.
  const phases = (events) => {
    const timing = events.find((event) => event.phases && event.phases.length);
    if (timing) return timing.phases.map((phase) => ({ name: phase.about, begin_us: phase.begin_us, end_us: phase.end_us }));
    const found = [];
    events.forEach((event, index) => {
      const next = events[index + 1];
      const last = found[found.length - 1];
      const until = next ? next.since_us : event.since_us;
      if (last && last.name === event.item) last.end_us = until;
      else found.push({ name: event.item, begin_us: event.since_us, end_us: until });
    });
    return found.slice(0, 40);
  };

  const waterfall = () => {
    picture.replaceChildren();
    if (only === null) return;
    const events = kept.filter((event) => event.number === only);
    if (!events.some((event) => event.id)) return;
    const rows = phases(events);
    if (!rows.length) return;
    // On a phone the names stand above the bars.
    const WIDTH = Math.max(320, Math.min(900, picture.clientWidth || 600)), isNarrow = WIDTH < 560;
    const NAME = isNarrow ? 6 : 240, ROW = isNarrow ? 30 : 18, TOP = isNarrow ? 14 : 0, BAR = 13;
    const end = Math.max(1, ...rows.map((row) => row.end_us));
    const slowest = rows.reduce((a, b) => b.end_us - b.begin_us > a.end_us - a.begin_us ? b : a);
    const room = WIDTH - NAME - 74;
    const height = rows.length * ROW + 26;
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
    drawing.append(svg("title", {}, `where the time of request ${only} went: ${duration(end)}, most of it in ${slowest.name}`));
    rows.forEach((row, index) => {
      const top = index * ROW + 6, y = top + TOP, x = NAME + room * row.begin_us / end;
      const width = Math.max(1.5, room * (row.end_us - row.begin_us) / end);
      drawing.append(
        svg("text", { x: 6, y: top + 11 }, row.name),
        svg("rect", { class: "track", x: NAME, y: y, width: room, height: BAR }),
        svg("rect", { class: row === slowest ? "slowest" : "phase", x, y, width, height: BAR }),
        svg("text", { class: "faint", x: NAME + room + 6, y: y + 11 }, duration(row.end_us - row.begin_us)));
    });
    drawing.append(
      svg("text", { class: "faint", x: NAME, y: height - 6 }, "0"),
      svg("text", { class: "faint", x: NAME + room, y: height - 6, "text-anchor": "end" }, duration(end)));
    picture.append(drawing);
  };

  narrow.addEventListener("change", () => redraw());

  // What the visitor does ------------------------------------------------------------------------------------------------

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (request) stop();
    else start();
  });
  form.querySelectorAll("button[data-items]").forEach((button) => button.addEventListener("click", () => {
    const wanted = button.dataset.items.split(",");
    form.querySelectorAll("input[name=items]").forEach((box) => { box.checked = wanted.includes(box.value); });
  }));
  const pause = () => {
    isPaused = !isPaused;
    if (isPaused) show();
    else redraw();
  };
  buttons.pause.addEventListener("click", pause);
  buttons.clear.addEventListener("click", () => {
    kept = [];
    keptBytes = total = dropped = lost = hidden = 0;
    only = null;
    redraw();
  });
  buttons.all.addEventListener("click", () => choose(null));
  buttons.save.addEventListener("click", () => save("text/plain", "watch-", kept.map((event) => line(event) + "\n")));
  buttons.json.addEventListener("click", () => save("application/json", "watch-", kept.map((event) => JSON.stringify(event) + "\n")));
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { text = search.value.toLowerCase(); redraw(); }, 150);
  });
  lines.addEventListener("click", (event) => {
    if (event.target.classList.contains("number")) choose(only === null ? Number(event.target.closest(".event").dataset.number) : null);
  });
  // The lines of one request, together.
  const light = (number) => {
    if (number === lit) return;
    for (const [shown, isLit] of [[lit, false], [number, true]]) {
      if (shown !== null && nodes.has(shown)) nodes.get(shown).forEach((row) => row.classList.toggle("lit", isLit));
    }
    lit = number;
  };
  const lightAt = (event) => {
    const row = event.target.closest ? event.target.closest(".event") : null;
    light(row && only === null ? Number(row.dataset.number) : null);
  };
  for (const kind of ["mouseover", "focusin", "click"]) lines.addEventListener(kind, lightAt);
  lines.addEventListener("mouseleave", () => light(null));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (document.activeElement === search && search.value) { search.value = text = ""; redraw(); }
      else if (only !== null) choose(null);
      return;
    }
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "p") pause();
    else if (event.key === "s") { if (request) stop(); else start(); }
    else if (event.key === "a" && only !== null) choose(null);
  });
  show();
  if (form.hasAttribute("data-start")) start();
})();
