// Charts, and what happens right now. All text from the server is set as text.
"use strict";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const fetched = async (url) => (await fetch(url)).json();

const size = (bytes) => {
  for (const unit of ["bytes", "kB", "MB", "GB"]) {
    if (bytes < 999.5) return `${bytes.toFixed(0)} ${unit}`;
    bytes /= 1000;
  }
  return `${bytes.toFixed(1)} TB`;
};

async function drawDays(canvas) {
  const days = await fetched(canvas.dataset.url);
  const ink = colour("--faint"), line = colour("--line");
  const axis = { ticks: { color: ink }, grid: { color: line } };
  return new Chart(canvas, {
    type: "bar",
    data: {
      labels: days.map((each) => each.day),
      datasets: [
        { label: "saved, seconds", data: days.map((each) => each.saved_seconds), backgroundColor: colour("--good") },
        { label: "produced in, seconds", data: days.map((each) => each.produced_seconds), backgroundColor: colour("--accent") },
      ],
    },
    options: {
      maintainAspectRatio: false,
      animation: false,
      scales: { x: axis, y: { ...axis, beginAtZero: true } },
      plugins: { legend: { labels: { color: colour("--ink") } } },
    },
  });
}

async function drawTreemap(canvas) {
  const found = await fetched(canvas.dataset.url);
  const tree = found.results.map((each) => ({ ...each, label: each.computes }));
  if (found.others) tree.push({ id: null, label: `${found.others} smaller results`, bytes: found.bytes, saved_seconds: 0 });
  const most = Math.max(1, ...tree.map((each) => each.saved_seconds));
  return new Chart(canvas, {
    type: "treemap",
    data: {
      datasets: [{
        tree,
        key: "bytes",
        spacing: 1,
        borderWidth: 0,
        backgroundColor: (context) => {
          const each = context.raw?._data;
          if (context.type !== "data" || !each) return "transparent";
          const share = Math.sqrt((each.saved_seconds ?? 0) / most);
          return `rgba(29, 78, 216, ${0.25 + 0.65 * share})`;
        },
        labels: {
          display: true,
          overflow: "cut",
          color: "#ffffff",
          font: { size: 12 },
          formatter: (context) => context.raw?._data?.label ?? "",
        },
      }],
    },
    options: {
      maintainAspectRatio: false,
      animation: false,
      onClick: (_, elements, chart) => {
        const each = elements.length && chart.data.datasets[0].data[elements[0].index]?._data;
        if (each && each.id) location.assign(`/results/${each.id}`);
      },
      plugins: {
        legend: { display: false },
        tooltip: {
          callbacks: {
            title: (items) => items[0]?.raw?._data?.label ?? "",
            label: (item) => `${size(item.raw.v)}, saved ${Math.round(item.raw._data?.saved_seconds ?? 0)} s`,
          },
        },
      },
    },
  });
}

const drawings = { days: drawDays, treemap: drawTreemap };
for (const [id, draw] of Object.entries(drawings)) {
  const canvas = document.getElementById(id);
  if (canvas) draw(canvas);
}

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

function show(kind, name, href, text) {
  const list = document.getElementById("happenings");
  if (!list) return;
  document.getElementById("no-happenings")?.remove();
  const item = document.createElement("li");
  item.className = `${kind} new`;
  const label = document.createElement("span");
  label.className = "kind";
  label.textContent = kind;
  const link = document.createElement(href ? "a" : "span");
  if (href) link.href = href;
  link.textContent = name;
  const more = document.createElement("span");
  more.className = "more";
  more.textContent = `${text} · ${new Date().toISOString().slice(11, 19)} UTC`;
  item.append(label, " ", link, " ", more);
  list.prepend(item);
  while (list.children.length > 100) list.lastElementChild.remove();
}

// What the server last sent of a part, by its id: the same again leaves it, and its focus, alone.
const served = new Map();
for (const part of document.querySelectorAll("[data-refresh]")) served.set(part.id, part.innerHTML);
document.addEventListener("htmx:beforeSwap", (event) => served.delete(event.detail.target.id));

async function fetchAgain(id) {
  const asked = location.href;
  const response = await fetch(asked);
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById(id);
  // A search that was answered meanwhile shows something else.
  if (location.href !== asked) return;
  if (!fresh || !document.getElementById(id) || served.get(id) === fresh.innerHTML) return;
  served.set(id, fresh.innerHTML);
  htmx.swap(`#${id}`, fresh.outerHTML, { swapStyle: "outerHTML" });
}

const waiting = new Set();
function refresh(...kinds) {
  for (const part of document.querySelectorAll("[data-refresh]")) {
    if (waiting.has(part.id) || !part.dataset.refresh.split(" ").some((each) => kinds.includes(each))) continue;
    waiting.add(part.id);
    setTimeout(() => {
      waiting.delete(part.id);
      fetchAgain(part.id);
    }, 500);
  }
}

if (document.querySelector("#happenings, [data-refresh]")) {
  const events = new EventSource("/events");
  const live = document.getElementById("live");
  events.addEventListener("open", () => {
    if (live) live.hidden = false;
    // Nobody has told of what happened since the page was made, or the connection broke.
    refresh("happening", "job", "executor");
  });
  events.addEventListener("error", () => { if (live) live.hidden = true; });
  events.addEventListener("happening", (event) => {
    const told = JSON.parse(event.data);
    show(told.kind, told.computes, `/results/${told.name}`, [told.text, told.user].filter(Boolean).join(" · "));
    refresh("happening");
  });
  events.addEventListener("job", (event) => {
    const told = JSON.parse(event.data);
    show("job", told.name, `/jobs/${told.id}`, told.text);
    refresh("job");
  });
  events.addEventListener("executor", (event) => {
    const told = JSON.parse(event.data);
    show("executor", told.address, null, told.text);
    refresh("executor");
  });
}
