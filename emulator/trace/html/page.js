'use strict';
// Draws a run. The data's shape is told in emulator/trace/page.hpp.
(() => {
const run = JSON.parse(document.getElementById('run').textContent);
const E = run.events, N = E.kind.length, agents = run.agents;
const KIND = Object.fromEntries(run.kinds.map((name, i) => [name, i]));
const at = id => document.getElementById(id);
const isAccess = i => E.kind[i] <= KIND['failed-cas'];
const isStep = i => E.kind[i] <= KIND.barrier;
const writes = i => E.kind[i] === KIND.write || E.kind[i] === KIND.rmw;
const strong = i => E.order[i] !== 0;

// ---- order of the run ---------------------------------------------------------------------------

// By event: its column, among those that are shown. The elements of one instruction, and the threads
// of one block barrier, share a step and a column; what is no step stands between two.
const column = new Float64Array(N);
let columns = 0;
const lowerBound = (array, value) => {
  let a = 0, b = array.length;
  while (a < b) { const m = (a + b) >> 1; if (array[m] < value) a = m + 1; else b = m; }
  return a;
};
// Events whose column is at least `value`.
const eventAt = value => lowerBound(column, value);

const previous = new Int32Array(N).fill(-1), following = new Int32Array(N).fill(-1);
const lastOf = new Int32Array(agents.length).fill(-1), firstOf = new Int32Array(agents.length).fill(-1);
for (let i = 0; i < N; ++i) {
  const a = E.agent[i];
  previous[i] = lastOf[a];
  if (lastOf[a] >= 0) following[lastOf[a]] = i; else firstOf[a] = i;
  lastOf[a] = i;
}
// Edges by their later end.
const edgesTo = new Map();
for (const list of [run.synchronises, run.depends]) {
  for (let k = 0; k < list.length; k += 2) {
    if (!edgesTo.has(list[k + 1])) edgesTo.set(list[k + 1], []);
    edgesTo.get(list[k + 1]).push(list[k]);
  }
}
const barrierAt = new Map();  // step -> events
for (let i = 0; i < N; ++i) {
  if (E.kind[i] !== KIND.barrier) continue;
  if (!barrierAt.has(E.step[i])) barrierAt.set(E.step[i], []);
  barrierAt.get(E.step[i]).push(i);
}
// A rank's launches in the order of its stream.
const launchOf = agents.map(a => a.call * 3 + a.phase);
const agentsOf = new Map();  // rank -> agents
agents.forEach((a, n) => {
  if (!agentsOf.has(a.rank)) agentsOf.set(a.rank, []);
  agentsOf.get(a.rank).push(n);
});

// The events that happen before `of`: bits by event.
function past(of) {
  const inside = new Uint8Array(N), open = [of], entered = new Set();
  const reach = i => { if (i >= 0 && !inside[i]) { inside[i] = 1; open.push(i); } };
  while (open.length > 0) {
    const i = open.pop();
    reach(previous[i]);
    for (const from of edgesTo.get(i) || []) reach(from);
    if (E.kind[i] === KIND.barrier) for (const j of barrierAt.get(E.step[i])) reach(j);
    if (previous[i] >= 0) continue;
    const a = E.agent[i], key = agents[a].rank + ':' + launchOf[a];
    if (entered.has(key)) continue;
    entered.add(key);
    for (const b of agentsOf.get(agents[a].rank)) if (launchOf[b] < launchOf[a]) reach(lastOf[b]);
  }
  inside[of] = 0;
  return inside;
}

// ---- lanes --------------------------------------------------------------------------------------

// By rank, stream, block.
const laneKey = a => (a.rank * 64 + a.stream) * 65536 + a.block;
const streams = agents.some(a => a.stream > 0);
const tiles = agents.some(a => a.name.includes('task'));
// Those that are shown: see layout().
let laneKeys = [], laneBlock = [], laneStream = [], laneRank = [], rows = [], streamLanes = new Map();
const laneOf = new Int32Array(agents.length).fill(-1);

// A thread that looks at a place again and again, with nothing in between: a run of looks, of which
// the last one, which ended the wait, stands for all. By event: how many a run has at its last look, 0 for the ones before it,
// 1 where there is none.
const looks = new Int32Array(N).fill(1);
{
  const isLook = i => E.kind[i] === KIND.read || E.kind[i] === KIND['failed-cas'];
  for (let i = 0; i < N; ++i) {
    const p = previous[i];
    if (p < 0 || !isLook(i) || !isLook(p) || !strong(i) || E.step[p] === E.step[i]) continue;
    if (E.site[p] !== E.site[i] || E.region[p] !== E.region[i] || E.offset[p] !== E.offset[i]) continue;
    looks[i] = looks[p] + 1;
    looks[p] = 0;
  }
}
const anyLooks = looks.some(n => n > 1);

// What the reader wants to see: bits by event, and the columns and lanes that follow from them.
const wanted = {rank: '', kernel: '', place: '', order: '', collapse: true};
const shown = new Uint8Array(N);
const kernelOf = a => run.kernels[agents[a].kernel] || ['product', 'protocol', 'consumer'][agents[a].phase];
const placeGroup = i => E.kind[i] <= KIND['failed-cas'] ? run.regions[E.region[i]] : '';
const orderGroups = {strong: i => strong(i), weak: i => !strong(i) && isAccess(i)};
run.orders.slice(1).forEach((name, k) => { orderGroups[name] = i => isAccess(i) && E.order[i] === k + 1; });
function layout() {
  const agentShown = agents.map((a, n) => (wanted.rank === '' || a.rank === Number(wanted.rank)) &&
    (wanted.kernel === '' || kernelOf(n) === wanted.kernel));
  const byOrder = orderGroups[wanted.order];
  let last = -1;
  columns = 0;
  const seen = new Set();
  for (let i = 0; i < N; ++i) {
    const always = run.pair.includes(i);  // the finding stays in sight
    let on = agentShown[E.agent[i]];
    if (on && isStep(i)) {
      if (wanted.collapse && looks[i] === 0) on = false;
      if (wanted.place !== '' && placeGroup(i) !== wanted.place) on = false;
      if (byOrder !== undefined && !byOrder(i)) on = false;
    }
    shown[i] = on || always ? 1 : 0;
    if (shown[i] && isStep(i)) seen.add(laneKey(agents[E.agent[i]]));
    if (!shown[i] || !isStep(i)) { column[i] = columns - 0.5; continue; }
    if (E.step[i] !== last) { last = E.step[i]; ++columns; }
    column[i] = columns - 1;
  }
  laneKeys = [...seen].sort((a, b) => a - b);
  if (laneKeys.length === 0) laneKeys = [...new Set(agents.map(laneKey))].sort((a, b) => a - b);
  const number = new Map(laneKeys.map((key, n) => [key, n]));
  laneBlock = laneKeys.map(key => key % 65536);
  laneStream = laneKeys.map(key => Math.floor(key / 65536) % 64);
  laneRank = laneKeys.map(key => Math.floor(key / 65536 / 64));
  rows = laneKeys.map(() => 1);
  agents.forEach((a, n) => {
    laneOf[n] = number.has(laneKey(a)) ? number.get(laneKey(a)) : -1;
    if (laneOf[n] >= 0) rows[laneOf[n]] = Math.max(rows[laneOf[n]], a.row + 1);
  });
  streamLanes = new Map();
  laneKeys.forEach((key, n) => {
    const stream = Math.floor(key / 65536);
    if (streamLanes.has(stream)) streamLanes.get(stream)[1] = n; else streamLanes.set(stream, [n, n]);
  });
  placeBoundaries();
}

// Arrows between lanes, by the read.
const arrows = [];
for (let i = 0; i < N; ++i) {
  const from = E.source[i];
  if (from >= 0 && laneKey(agents[E.agent[from]]) !== laneKey(agents[E.agent[i]])) arrows.push(i);
}
const slotName = i => run.slots[E.region[i] + ':' + E.offset[i]];
const isSignal = i => slotName(i) !== undefined;
const signalRegion = run.regions.map(() => false);
for (const key of Object.keys(run.slots)) signalRegion[Number(key.split(':')[0])] = true;
// Where the program names no slots, strong accesses of both sides stand for them.
const anySlots = signalRegion.some(s => s);
const signalArrows = arrows.filter(i => anySlots ? signalRegion[E.region[i]] : strong(i) && strong(E.source[i]));

// Kernel boundaries: where a rank's launch begins.
const boundaries = [];
function placeBoundaries() {
  boundaries.length = 0;
  const last = new Map();  // by rank and stream
  const begun = new Set();
  // Agents are numbered by their first events.
  agents.forEach((a, n) => {
    const key = `${a.rank}:${launchOf[n]}:${a.launch}`, stream = a.rank * 64 + a.stream, i = firstOf[n];
    if (begun.has(key) || i < 0 || !streamLanes.has(stream)) return;
    begun.add(key);
    const b = {lanes: streamLanes.get(stream), column: column[i] - (isStep(i) && shown[i] ? 0.5 : 0), next: Infinity,
      text: `call ${a.call} ${streams && a.phase === 1 && !run.kernels[a.kernel] ? `launch ${a.launch}` : kernelOf(n)}`};
    if (last.has(stream)) last.get(stream).next = b.column;
    last.set(stream, b);
    boundaries.push(b);
  });
}

// ---- words --------------------------------------------------------------------------------------

const hex = v => typeof v === 'string' ? v : v < 100000 ? String(v) : '0x' + v.toString(16);
const placeText = i => slotName(i) || `${run.regions[E.region[i]]}, byte ${E.offset[i]}`;
const orderText = i => strong(i) ? `${run.orders[E.order[i]]}.${run.scopes[E.scope[i]]}` : 'weak';
function siteText(i) { return run.sites[E.site[i]] || ''; }
const shortSite = i => siteText(i).replace(/^[^:]*: /, '').replace(/ \([^()]*\)$/, '');
function whatText(i) {
  switch (E.kind[i]) {
    case KIND.read: return `reads ${hex(E.value[i])}`;
    case KIND.write: return `writes ${hex(E.value[i])}`;
    case KIND.rmw: return `${hex(E.old[i])} \u2192 ${hex(E.value[i])}`;
    case KIND['failed-cas']: return `finds ${hex(E.value[i])}, does not swap`;
    case KIND.fence: return `fence.${E.value[i] === 1 ? 'sc' : E.value[i] === 2 ? 'proxy.alias' : 'acq_rel'}.${run.scopes[E.scope[i]]}`;
    case KIND.barrier: return 'bar.sync';
    case KIND.launch: return 'begins';
    case KIND['end-launch']: return 'ends';
    default: return 'may begin: what it depends on is done';
  }
}
function sourceText(i) {
  if (E.source[i] >= 0) return `step ${E.step[E.source[i]]}, ${agents[E.agent[E.source[i]]].name}`;
  return E.source[i] === -2 ? 'initial content' : '';
}
function element(tag, text, attributes = {}) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}
function jumpRow(tr, i) {
  if (i < 0) return tr;
  tr.classList.add('can');
  tr.tabIndex = 0;
  tr.addEventListener('click', () => select(i, true));
  tr.addEventListener('keydown', e => { if (e.key === 'Enter') select(i, true); });
  return tr;
}
function tableOf(header, lines) {
  const table = element('table'), head = element('tr');
  for (const h of header) head.append(element('th', h));
  table.append(head, ...lines);
  return table;
}

// ---- state --------------------------------------------------------------------------------------

const view = {scale: 1, left: 0, top: 0, laneHeight: 24};  // pixels a column, first column, pixels
let chosen = -1, before = null, beforeCount = 0, colour = {};
const lanes = at('lanes'), map = at('map'), ctx = lanes.getContext('2d');
const HEAD = 18;
let GUTTER = 92;
let width = 0, height = 0, blockAt = 49;

const maxTop = () => Math.max(0, laneKeys.length * view.laneHeight - (height - HEAD));
const x = c => GUTTER + (c - view.left + 0.5) * view.scale;
const laneY = n => HEAD + n * view.laneHeight - view.top;
function y(i) {
  const a = E.agent[i], n = laneOf[a], h = view.laneHeight;
  if (h < 10 || rows[n] === 1) return laneY(n) + h / 2;
  return laneY(n) + 3 + (agents[a].row + 0.5) / rows[n] * (h - 6);
}
function clampView() {
  const room = width - GUTTER;
  view.scale = Math.min(60, Math.max(view.scale, room / Math.max(columns + 1, 2)));
  view.left = Math.min(Math.max(view.left, -0.5), Math.max(-0.5, columns + 0.5 - room / view.scale));
  view.top = Math.min(Math.max(view.top, 0), maxTop());
}
function fit() {
  view.scale = 0;
  view.left = -0.5;
  view.top = 0;
  clampView();
  draw();
}
function zoom(factor, px = GUTTER + (width - GUTTER) / 2) {
  const c = view.left + (px - GUTTER) / view.scale;
  view.scale *= factor;
  view.scale = Math.min(60, Math.max(view.scale, (width - GUTTER) / Math.max(columns + 1, 2)));
  view.left = c - (px - GUTTER) / view.scale;
  clampView();
  draw();
}
// The finding's accesses in one picture, as near as that is; without one the whole run.
function open() {
  const both = run.pair.filter(i => i >= 0).map(i => column[i]);
  if (both.length === 0 && chosen >= 0) both.push(column[chosen]);
  if (both.length === 0) { fit(); return; }
  const a = Math.min(...both), b = Math.max(...both), room = width - GUTTER;
  view.scale = Math.min(24, room * 0.7 / Math.max(1, b - a + 2));
  clampView();
  view.left = (a + b) / 2 - room / view.scale / 2;
  clampView();
}
function show(i) {
  const room = (width - GUTTER) / view.scale, c = column[i];
  if (c < view.left + room * 0.05 || c > view.left + room * 0.95) view.left = c - room / 2;
  if (laneOf[E.agent[i]] < 0) return;
  const top = laneOf[E.agent[i]] * view.laneHeight;
  if (top < view.top) view.top = top;
  if (top + view.laneHeight > view.top + height - HEAD) view.top = top + view.laneHeight - (height - HEAD);
  clampView();
}

// ---- drawing ------------------------------------------------------------------------------------

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['paper', 'panel', 'ink', 'soft', 'line', 'lane', 'lane2', 'fault', 'past', 'choice', 'weak',
    'relaxed', 'acquire', 'release', 'acq_rel', 'barrier', 'signal', 'from']) {
    colour[name] = style.getPropertyValue('--' + name).trim();
  }
}
const colourOf = i => E.kind[i] === KIND.barrier || E.kind[i] === KIND.fence ? colour.barrier
  : colour[run.orders[E.order[i]]] || colour.weak;

function mark(i, size) {
  const px = x(column[i]), py = y(i), r = size / 2;
  switch (E.kind[i]) {
    case KIND.read: ctx.strokeRect(px - r + 0.5, py - r + 0.5, size - 1, size - 1); break;
    case KIND.write: ctx.fillRect(px - r, py - r, size, size); break;
    case KIND.fence:
      ctx.beginPath(); ctx.moveTo(px - r, py + r); ctx.lineTo(px, py - r); ctx.lineTo(px + r, py + r); ctx.fill(); break;
    case KIND.barrier: ctx.fillRect(px - 1, py - r, 2, size); break;
    default:
      ctx.beginPath(); ctx.moveTo(px - r, py); ctx.lineTo(px, py - r); ctx.lineTo(px + r, py); ctx.lineTo(px, py + r);
      ctx.closePath();
      if (E.kind[i] === KIND.rmw) ctx.fill(); else ctx.stroke();
  }
}
function arrow(i, style, line) {
  const from = E.source[i], x0 = x(column[from]), y0 = y(from), x1 = x(column[i]), y1 = y(i);
  if (Math.max(x0, x1) < GUTTER || Math.min(x0, x1) > width) return;
  ctx.strokeStyle = ctx.fillStyle = style;
  ctx.lineWidth = line;
  const bend = Math.max(14, Math.min(60, Math.abs(x1 - x0) / 2));
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1 - 1, y1); ctx.lineTo(x1 - 7, y1 - 3.5); ctx.lineTo(x1 - 7, y1 + 3.5);
  ctx.fill();
}

// Labels, each where no other one and no ring is: the first of its places that is free, or nowhere.
let labels = [], rings = [];
const touches = (a, b, gap) => a.x < b.x + b.w + gap && b.x < a.x + a.w + gap && a.y < b.y + b.h + gap && b.y < a.y + a.h + gap;
function place(text, font, fill, places, room = Infinity) {
  ctx.font = font;
  let shownText = text, w = ctx.measureText(text).width;
  while (w > room && shownText.length > 4) {
    shownText = shownText.slice(0, -2).replace(/\u2026?$/, '\u2026');
    w = ctx.measureText(shownText).width;
  }
  if (w > room) return false;
  const h = Number(/(\d+)px/.exec(font)[1]) + 1;
  for (const [px, py] of places) {
    const box = {text: shownText, x: px, y: py, w, h};
    if (box.x + w > width - 1 || box.y < 0 || box.y + h > height) continue;
    if (labels.some(other => touches(box, other, 1.5)) || rings.some(ring => touches(box, ring, 1))) continue;
    ctx.fillStyle = fill;
    ctx.textBaseline = 'top';
    ctx.textAlign = 'left';
    ctx.fillText(shownText, px, py);
    labels.push(box);
    return true;
  }
  return false;
}

let pending = false;
function draw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; paint(); });
}

function paint() {
  const ratio = window.devicePixelRatio || 1;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = colour.paper;
  ctx.fillRect(0, 0, width, height);
  labels = [];
  rings = [];
  const n0 = Math.max(0, Math.floor(view.top / view.laneHeight));
  const n1 = Math.min(laneKeys.length, Math.ceil((view.top + height - HEAD) / view.laneHeight));
  for (let n = n0; n < n1; ++n) {
    ctx.fillStyle = laneRank[n] % 2 ? colour.lane2 : colour.lane;
    ctx.fillRect(GUTTER, laneY(n), width - GUTTER, view.laneHeight);
    ctx.fillStyle = colour.line;
    ctx.fillRect(GUTTER, laneY(n), width - GUTTER, n > 0 && laneRank[n] !== laneRank[n - 1] ? 2 : 0.5);
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, HEAD, width - GUTTER, height - HEAD);
  ctx.clip();

  const c0 = view.left - 2, c1 = view.left + (width - GUTTER) / view.scale + 2;
  const i0 = eventAt(c0), i1 = eventAt(c1), scale = view.scale;
  const size = Math.max(1.5, Math.min(11, scale * 0.8, view.laneHeight - 2));
  const showPast = at('show-past').checked && chosen >= 0 && before !== null;
  const ringed = run.pair.filter(i => i >= 0), ringSize = Math.max(size, 6) / 2 + 4, box = Math.max(size, 5) / 2 + 3;
  for (const i of ringed) rings.push({x: x(column[i]) - ringSize - 1.5, y: y(i) - ringSize - 1.5, w: 2 * ringSize + 3, h: 2 * ringSize + 3});
  if (chosen >= 0 && laneOf[E.agent[chosen]] >= 0) rings.push({x: x(column[chosen]) - box - 1, y: y(chosen) - box - 1, w: 2 * box + 2, h: 2 * box + 2});

  // The past, as a band behind the lanes' events.
  if (showPast) {
    ctx.fillStyle = colour.past;
    const lastX = new Float64Array(laneKeys.length).fill(-1e9);
    for (let i = i0; i < i1; ++i) {
      if (!before[i] || !shown[i]) continue;
      const n = laneOf[E.agent[i]];
      if (n < n0 || n >= n1) continue;
      const px = x(column[i]);
      if (px - lastX[n] < 0.5) continue;
      lastX[n] = px;
      const w = Math.max(1, scale + 0.5);
      ctx.fillRect(px - w / 2, laneY(n) + 1, w, view.laneHeight - 1);
    }
  }
  // Kernel boundaries across the lanes of their rank and stream.
  ctx.font = '10px system-ui, "DejaVu Sans", sans-serif';
  ctx.textBaseline = 'top';
  for (const b of boundaries) {
    if (b.column < c0 || b.column > c1) continue;
    const top = laneY(b.lanes[0]), bottom = laneY(b.lanes[1] + 1);
    if (bottom < HEAD || top > height) continue;
    ctx.strokeStyle = colour.soft;
    ctx.lineWidth = 1;
    ctx.setLineDash([4, 3]);
    ctx.beginPath(); ctx.moveTo(x(b.column), top); ctx.lineTo(x(b.column), bottom); ctx.stroke();
    ctx.setLineDash([]);
  }
  // Block barriers across their lane.
  if (scale > 0.5) {
    ctx.fillStyle = colour.barrier;
    ctx.globalAlpha = 0.45;
    for (let i = i0; i < i1; ++i) {
      if (E.kind[i] !== KIND.barrier || !shown[i]) continue;
      const n = laneOf[E.agent[i]];
      if (n < n0 || n >= n1 || barrierAt.get(E.step[i])[0] !== i) continue;
      ctx.fillRect(x(column[i]) - 0.75, laneY(n) + 1, 1.5, view.laneHeight - 1);
    }
    ctx.globalAlpha = 1;
  }
  // Events: one mark a pixel and class where they are close.
  const lastMark = new Map();
  ctx.lineWidth = 1.5;
  for (let i = i0; i < i1; ++i) {
    if (!isStep(i) || !shown[i]) continue;
    const n = laneOf[E.agent[i]];
    if (n < n0 || n >= n1) continue;
    if (scale < 3) {
      const row = view.laneHeight < 10 ? 0 : agents[E.agent[i]].row;
      const key = (n * 4096 + row) * 16 + E.order[i] * 2 + (writes(i) ? 1 : 0), px = Math.round(x(column[i]));
      if (lastMark.get(key) === px) continue;
      lastMark.set(key, px);
    }
    ctx.globalAlpha = showPast && !before[i] && i !== chosen ? 0.4 : 1;
    ctx.fillStyle = ctx.strokeStyle = colourOf(i);
    if (size < 4) ctx.fillRect(x(column[i]) - size / 2, y(i) - Math.max(size, 3) / 2, size, Math.max(size, 3)); else mark(i, size);
  }
  ctx.globalAlpha = 1;
  // Arrows, where they are not too many to tell apart.
  const mode = at('arrows').value, most = 500;
  const list = mode === 'all' ? arrows : mode === 'signals' ? signalArrows : [];
  const drawn = [];
  for (let k = lowerBound(list, i0); k < list.length; ++k) {
    if (list[k] >= i1 + 400 || drawn.length > most) break;
    if (shown[list[k]] && shown[E.source[list[k]]] && column[E.source[list[k]]] <= c1) drawn.push(list[k]);
  }
  if (drawn.length <= most) {
    for (const i of drawn) arrow(i, mode === 'signals' || isSignal(i) ? colour.signal : colour.from, 1.2);
  }
  if (chosen >= 0) {
    if (E.source[chosen] >= 0 && shown[E.source[chosen]]) arrow(chosen, colour.choice, 2);
    if (writes(chosen)) for (const i of readersOf(chosen)) if (shown[i]) arrow(i, colour.choice, 1.5);
  }
  // The finding.
  const [first, second] = run.pair;
  if (first >= 0 && second >= 0) {
    ctx.strokeStyle = colour.fault;
    ctx.lineWidth = 1.5;
    ctx.setLineDash([6, 4]);
    ctx.beginPath(); ctx.moveTo(x(column[first]), y(first)); ctx.lineTo(x(column[second]), y(second)); ctx.stroke();
    ctx.setLineDash([]);
  }
  run.pair.forEach(i => {
    if (i < 0) return;
    ctx.strokeStyle = ctx.fillStyle = colour.fault;
    ctx.lineWidth = 2.5;
    ctx.beginPath(); ctx.arc(x(column[i]), y(i), ringSize, 0, 7); ctx.stroke();
    if (size >= 4) mark(i, size);
  });
  if (chosen >= 0 && laneOf[E.agent[chosen]] >= 0) {
    ctx.strokeStyle = colour.choice;
    ctx.lineWidth = 1;
    ctx.beginPath(); ctx.moveTo(x(column[chosen]), HEAD); ctx.lineTo(x(column[chosen]), height); ctx.stroke();
    ctx.lineWidth = 2;
    ctx.strokeRect(x(column[chosen]) - box, y(chosen) - box, 2 * box, 2 * box);
  }
  // The finding's names first, then the launches', which leave them room.
  const small = '10px system-ui, "DejaVu Sans", sans-serif', bold = 'bold 11px system-ui, "DejaVu Sans", sans-serif';
  const inside = (px, py, w) => px >= GUTTER && px + w <= width && py >= HEAD;
  run.pair.forEach((i, k) => {
    if (i < 0) return;
    const px = x(column[i]), py = y(i), name = ringed.length === 2 ? ['first', 'second'][k] : 'here';
    if (px < GUTTER || px > width) return;
    ctx.font = bold;
    const w = ctx.measureText(name).width, d = ringSize + 4;
    const places = [[px + d, py - 13], [px - d - w, py - 13], [px + d, py + 2], [px - d - w, py + 2], [px - w / 2, py - d - 13], [px - w / 2, py + d + 2]];
    place(name, bold, colour.fault, places.filter(p => inside(p[0], p[1], w)));
  });
  // A wait's looks, where one mark stands for many.
  if (wanted.collapse && anyLooks && scale > 6 && view.laneHeight >= 14) {
    for (let i = i0; i < i1; ++i) {
      if (!shown[i] || looks[i] < 2 || laneOf[E.agent[i]] < n0 || laneOf[E.agent[i]] >= n1) continue;
      const px = x(column[i]) + size / 2 + 2;
      if (px < GUTTER) continue;
      place(`\u00d7${looks[i]}`, small, colour.soft, [[px, y(i) - 12], [px, y(i) + 3]]);
    }
  }
  for (const b of boundaries) {
    if (b.column > c1 || view.laneHeight < 14) continue;
    const from = Math.max(GUTTER, x(b.column)), to = Math.min(width, x(Math.min(b.next, columns + 1)));
    const top = laneY(b.lanes[0]), bottom = laneY(b.lanes[1] + 1);
    if (to - from < 24 || bottom < HEAD || top > height) continue;
    const ys = [];
    for (let py = Math.max(HEAD, top) + 1; py + 11 < Math.min(bottom, height); py += 12) ys.push(py);
    place(b.text, small, colour.soft, ys.slice(0, 6).map(py => [from + 3, py]), to - from - 6);
  }
  ctx.restore();

  // Names of the lanes and steps.
  ctx.fillStyle = colour.panel;
  ctx.fillRect(0, 0, GUTTER, height);
  ctx.fillRect(0, 0, width, HEAD);
  ctx.fillStyle = colour.line;
  ctx.fillRect(GUTTER - 1, 0, 1, height);
  ctx.fillRect(0, HEAD - 1, width, 1);
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, HEAD, GUTTER, height - HEAD);
  ctx.clip();
  rings = [];  // they end at the gutter
  for (let n = n0; n < n1; ++n) {
    if (n !== 0 && laneRank[n] === laneRank[n - 1]) continue;
    ctx.fillStyle = colour.line;
    ctx.fillRect(0, laneY(n), GUTTER, 1);
    place(`rank ${laneRank[n]}`, bold, colour.ink, [[8, Math.max(laneY(n) + view.laneHeight / 2 - 6, laneY(n) + 1)]]);
  }
  for (let n = n0; n < n1; ++n) {
    const text = streams ? `s${laneStream[n]} ${tiles ? 't' : 'b'}${laneBlock[n]}` : `${tiles ? 'tile' : 'block'} ${laneBlock[n]}`;
    const here = chosen >= 0 && laneOf[E.agent[chosen]] === n;
    place(text, small, here ? colour.choice : colour.soft, [[blockAt, laneY(n) + view.laneHeight / 2 - 5.5]]);
  }
  ctx.restore();
  place('step', small, colour.soft, [[8, 4]]);
  const tick = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 1e6].find(t => t * scale > 56) || 1e7;
  for (let c = Math.ceil(Math.max(view.left, 0) / tick) * tick; c < Math.min(c1, columns); c += tick) {
    if (N === 0) break;
    const i = Math.min(N - 1, eventAt(c));
    if (x(c) - 4 < GUTTER) continue;
    if (!place(String(E.step[i]), small, colour.soft, [[x(c) - 4, 3]])) continue;
    ctx.fillStyle = colour.soft;
    ctx.fillRect(x(c), HEAD - 4, 1, 4);
  }
  paintMap();
  api.painted = performance.now();
}

// The whole run at a glance, with the part in view framed.
let mapPicture = null;
function makeMap() {
  const ratio = window.devicePixelRatio || 1, w = Math.max(1, width - GUTTER), h = 26;
  mapPicture = document.createElement('canvas');
  mapPicture.width = (width) * ratio;
  mapPicture.height = h * ratio;
  const m = mapPicture.getContext('2d');
  m.scale(ratio, ratio);
  m.fillStyle = colour.panel;
  m.fillRect(0, 0, width, h);
  const counts = new Float64Array(Math.ceil(w) + 1), loud = new Float64Array(Math.ceil(w) + 1);
  for (let i = 0; i < N; ++i) {
    if (!shown[i]) continue;
    const b = Math.floor(Math.max(0, column[i]) / Math.max(1, columns) * w);
    ++counts[b];
    if (strong(i)) ++loud[b];
  }
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  for (let b = 0; b <= w; ++b) {
    m.fillStyle = colour.weak;
    m.fillRect(GUTTER + b, h - counts[b] / most * (h - 4), 1, counts[b] / most * (h - 4));
    m.fillStyle = colour.relaxed;
    m.fillRect(GUTTER + b, h - loud[b] / most * (h - 4), 1, loud[b] / most * (h - 4));
  }
  m.fillStyle = colour.soft;
  m.font = '10px system-ui, "DejaVu Sans", sans-serif';
  m.textBaseline = 'middle';
  m.fillText('whole run', 8, h / 2);
  m.fillStyle = colour.fault;
  for (const i of run.pair) if (i >= 0) m.fillRect(GUTTER + column[i] / Math.max(1, columns) * w - 1, 0, 2, h);
}
function paintMap() {
  const ratio = window.devicePixelRatio || 1, m = map.getContext('2d'), w = width - GUTTER, h = 26;
  m.setTransform(1, 0, 0, 1, 0, 0);
  m.drawImage(mapPicture, 0, 0);
  m.setTransform(ratio, 0, 0, ratio, 0, 0);
  const a = Math.max(0, view.left) / Math.max(1, columns) * w, b = Math.min(columns, view.left + w / view.scale) / Math.max(1, columns) * w;
  m.strokeStyle = colour.choice;
  m.lineWidth = 2;
  m.strokeRect(GUTTER + a + 1, 1, Math.max(3, b - a - 2), h - 2);
}

// ---- the panel ----------------------------------------------------------------------------------

function readersOf(w) {
  const out = [];
  for (let i = w + 1; i < N; ++i) if (E.source[i] === w) out.push(i);
  return out;
}
const overlaps = (i, j) => E.region[i] === E.region[j] && E.offset[i] < E.offset[j] + Math.max(1, E.bytes[j]) &&
  E.offset[j] < E.offset[i] + Math.max(1, E.bytes[i]);

function select(i, centre = false) {
  if (i >= 0 && !shown[i]) unfilter(i);
  chosen = i;
  before = i >= 0 ? past(i) : null;
  beforeCount = before === null ? 0 : before.reduce((a, b) => a + b, 0);
  if (i >= 0 && centre) show(i);
  tellEvent();
  tellMessages();
  tellSource();
  for (const tr of document.querySelectorAll('#matter tr')) tr.classList.toggle('now', tr.dataset.event === String(i));
  draw();
}
function tellEvent() {
  const box = at('event');
  box.replaceChildren();
  if (chosen < 0) { box.textContent = 'none chosen; click one, or press Right'; return; }
  const i = chosen, a = agents[E.agent[i]], table = element('table');
  const row = (name, text, jump = -1) => {
    if (text === '') return;
    const tr = element('tr'), td = element('td');
    if (jump >= 0) {
      const link = element('a', text, {class: 'jump', tabindex: 0, role: 'button'});
      link.addEventListener('click', () => select(jump, true));
      link.addEventListener('keydown', e => { if (e.key === 'Enter') select(jump, true); });
      td.append(link);
    } else td.textContent = text;
    tr.append(element('th', name), td);
    table.append(tr);
  };
  const side = run.pair.indexOf(i);
  if (side >= 0) {
    const both = run.pair[0] >= 0 && run.pair[1] >= 0;
    box.append(element('div', both ? ['first access of the finding', 'second access of the finding'][side] : 'the access of the finding', {class: 'tag'}));
  }
  row('step', `${E.step[i]}  (event ${i + 1} of ${N})`);
  row('who', `${a.name}: rank ${a.rank}, ${tiles ? 'tile' : 'block'} ${a.block}, ${tiles ? 'operation' : 'thread'} ${a.row}; call ${a.call}, ${kernelOf(E.agent[i])}${streams ? `, launch ${a.launch} on stream ${a.stream}` : ''}`);
  if (isStep(i)) row('line', siteText(i));
  if (looks[i] > 1) row('looks', `the last of ${looks[i]}`);
  row('does', isAccess(i) ? `${run.kinds[E.kind[i]]} ${orderText(i)}` : '');
  if (isAccess(i)) row('place', `${placeText(i)} (${E.bytes[i]} bytes)`);
  row('value', whatText(i));
  row('read from', sourceText(i), E.source[i]);
  if (E.flags[i] & 1) row('note', writes(i) && E.kind[i] === KIND.write ? 'landed before a newer message' : 'an OLD value: a newer message was there');
  if (writes(i)) { const r = readersOf(i); row('seen by', r.length === 0 ? 'nobody' : `${r.length} reads, first at step ${E.step[r[0]]}`, r.length ? r[0] : -1); }
  row('before it', `${beforeCount} of ${i} earlier events happen before it`);
  box.append(table);
}
// What had been written to the location, newest first, and what causality still allowed to be read.
function messagesOf(i) {
  const list = [];
  for (let j = 0; j <= i; ++j) if (writes(j) && overlaps(i, j)) list.push(j);
  const recent = list.slice(-24);
  return list.map(j => {
    const overwritten = recent.includes(j) && j !== E.source[i] && recent.some(k => k !== j && k > j && k !== i && before[k] && overwrites(k, j) && E.offset[k] <= E.offset[j] && E.offset[j] + E.bytes[j] <= E.offset[k] + E.bytes[k]);
    return {event: j, overwritten};
  }).reverse();
}
// Whether write k comes after write j in an order that nobody can miss.
function overwrites(k, j) {
  if (E.agent[k] === E.agent[j] || E.source[k] === j) return true;
  if (!pastCache.has(k)) { if (pastCache.size > 24) pastCache.clear(); pastCache.set(k, past(k)); }
  return pastCache.get(k)[j] === 1;
}
const pastCache = new Map();
function tellMessages() {
  const box = at('messages');
  box.replaceChildren();
  if (chosen < 0 || !isAccess(chosen)) { box.textContent = 'the chosen event touches no memory'; return; }
  const all = messagesOf(chosen), lines = [];
  for (const {event: j, overwritten} of all.slice(0, 24)) {
    const tr = jumpRow(element('tr'), j);
    if (overwritten) tr.classList.add('out');
    if (j === E.source[chosen]) tr.classList.add('now');
    tr.append(element('td', E.step[j]), element('td', agents[E.agent[j]].name, {class: 'mono'}), element('td', orderText(j)),
      element('td', hex(E.value[j]), {class: 'mono'}),
      element('td', j === chosen ? 'this one' : j === E.source[chosen] ? 'read here' : overwritten ? 'overwritten' : before[j] ? 'before it' : 'unordered'));
    lines.push(tr);
  }
  if (all.length <= 24) {
    const tr = element('tr'), read = E.source[chosen] === -2;
    if (read) tr.classList.add('now');
    tr.append(element('td', '0'), element('td', 'before all launches'), element('td', ''), element('td', ''), element('td', read ? 'read here' : ''));
    lines.push(tr);
  }
  box.append(element('div', `${placeText(chosen)}, newest first`), tableOf(['step', 'writer', 'order', 'value', ''], lines));
  if (all.length > 24) box.append(element('div', `and ${all.length - 24} older`));
}
function tellSource() {
  const box = at('source');
  box.replaceChildren();
  const mine = new Set();
  if (chosen >= 0) for (let i = firstOf[E.agent[chosen]]; i >= 0; i = following[i]) if (isStep(i)) mine.add(E.site[i]);
  const faulty = new Set(run.pair.filter(i => i >= 0).map(i => E.site[i]));
  for (const [site, text] of Object.entries(run.sites)) {
    const li = element('li', text), now = chosen >= 0 && isStep(chosen) && E.site[chosen] === Number(site);
    li.classList.toggle('mine', mine.has(Number(site)));
    li.classList.toggle('fault', faulty.has(Number(site)));
    li.classList.toggle('now', now);
    box.append(li);
  }
  const now = box.querySelector('.now');
  if (now !== null) box.scrollTop = now.offsetTop - box.offsetTop - box.clientHeight / 2;
}

// ---- what is told once --------------------------------------------------------------------------

function tellHead() {
  const headline = at('headline');
  if (run.kind !== null) {
    document.querySelector('header').classList.add('fault');
    headline.append(element('b', run.kind), ` in boundary mode ${run.mode}: ${run.message}`);
  } else headline.textContent = `${run.message || 'no finding'} (boundary mode ${run.mode})`;
  const cause = at('cause');
  if (run.cause) cause.append(element('b', 'cause'), ` ${run.cause}`);
  if (run.fix) cause.append(run.cause ? ' ' : '', element('b', 'fix'), ` ${run.fix}`);
  cause.hidden = !run.cause && !run.fix;
  at('case').textContent = `${run.case}; ${run.policies}` + (run.left_out > 0 ? `; the first ${run.left_out} events are left out` : '');
  if (run.id && run.kind !== null) at('case').textContent += `; ${run.id}`;
  if (run.replay) at('replay').append('again: ', element('code', run.replay, {class: 'mono'}));
  at('remedy').textContent = run.remedy.trim().replace(/\n\s*/g, ' ');
  at('notes').append(...run.notes.map(line => element('li', line)));
  at('story').textContent = run.story;
  at('pair-buttons').hidden = run.pair.every(i => i < 0);
  at('first').disabled = run.pair[0] < 0;
  at('second').disabled = run.pair[1] < 0;

  at('stuck-section').hidden = run.stuck.length === 0;
  at('stuck').append(tableOf(['', 'agent', 'waits for', 'needs', 'there', 'to be written by', 'which'], run.stuck.slice(0, 40).map(s => {
    const tr = jumpRow(element('tr'), s.event);
    tr.classList.toggle('fault', s.cycle);
    for (const text of [s.cycle ? '\u21bb' : '', s.agent, s.slot, s.needs, s.there === null ? '' : s.there, s.writer, s.which]) tr.append(element('td', text));
    return tr;
  })));
  if (run.stuck.some(s => s.cycle)) at('stuck').append(element('div', '\u21bb on a cycle of waits'));
  at('matter-section').hidden = run.matter.length === 0;
  at('matter').append(tableOf(['', 'step', 'agent', 'line', 'order', 'place', 'value'], run.matter.map(i => {
    const tr = jumpRow(element('tr'), i);
    tr.dataset.event = i;
    const side = run.pair.indexOf(i);
    tr.classList.toggle('fault', side >= 0);
    for (const text of [side >= 0 ? '\u25cf' : '', E.step[i], agents[E.agent[i]].name, shortSite(i), isAccess(i) ? orderText(i) : '', isAccess(i) ? placeText(i) : '', whatText(i)]) tr.append(element('td', text));
    return tr;
  })));
}
// The same steps in the nearest schedule that passes; what is otherwise there is marked.
function tellBeside() {
  at('beside-section').hidden = !run.beside || run.beside.rows.length === 0;
  if (at('beside-section').hidden) return;
  const words = {value: 'another value', writer: 'written by another step', order: 'earlier than a step above', missing: 'does not happen'};
  const lines = run.beside.rows.map(row => {
    const i = row.event, tr = jumpRow(element('tr'), i), side = run.pair.indexOf(i);
    tr.classList.toggle('fault', side >= 0);
    tr.classList.toggle('differs', row.differs.length > 0);
    for (const text of [side >= 0 ? '\u25cf' : i === run.beside.first ? '\u2260' : '', E.step[i], agents[E.agent[i]].name, shortSite(i), isAccess(i) ? placeText(i) : '', whatText(i)]) tr.append(element('td', text));
    for (const text of [row.step === null ? '' : row.step, row.text || (row.step === null ? '' : whatText(i)), row.differs.map(d => words[d]).join(', ')]) tr.append(element('td', text, {class: 'there'}));
    return tr;
  });
  at('beside').append(element('div', 'left: this run; right: the one that passes' +
    (run.beside.first >= 0 ? `; \u2260 is where they part` : '')),
  tableOf(['', 'step', 'agent', 'line', 'place', 'here', 'step there', 'there', 'differs'], lines));
}
function tellLegend() {
  const box = at('legend');
  box.replaceChildren();
  const entry = (paint, text) => {
    const c = element('canvas'), span = element('span'), ratio = window.devicePixelRatio || 1;
    c.width = 22 * ratio; c.height = 12 * ratio;
    c.style.width = '22px'; c.style.height = '12px';
    c.setAttribute('aria-hidden', 'true');
    const g = c.getContext('2d');
    g.scale(ratio, ratio);
    paint(g);
    span.append(c, text);
    box.append(span);
  };
  entry(g => { g.fillStyle = colour.ink; g.fillRect(6, 1, 10, 10); }, 'write');
  entry(g => { g.strokeStyle = colour.ink; g.lineWidth = 1.5; g.strokeRect(6.5, 1.5, 9, 9); }, 'read');
  entry(g => { g.fillStyle = colour.ink; g.beginPath(); g.moveTo(5, 6); g.lineTo(11, 0); g.lineTo(17, 6); g.lineTo(11, 12); g.fill(); }, 'read-modify-write');
  entry(g => { g.fillStyle = colour.barrier; g.fillRect(10, 0, 2, 12); }, 'block barrier');
  entry(g => { g.strokeStyle = colour.soft; g.setLineDash([3, 2]); g.beginPath(); g.moveTo(11, 0); g.lineTo(11, 12); g.stroke(); }, 'kernel boundary');
  for (const order of run.orders) entry(g => { g.fillStyle = colour[order]; g.fillRect(4, 2, 14, 8); }, order);
  const line = (c, dash) => g => { g.strokeStyle = c; g.lineWidth = 2; g.setLineDash(dash); g.beginPath(); g.moveTo(1, 6); g.lineTo(21, 6); g.stroke(); };
  entry(line(colour.signal, []), 'put \u2192 wait');
  entry(line(colour.from, []), 'write \u2192 read');
  if (run.pair.some(i => i >= 0)) entry(line(colour.fault, [4, 3]), 'the finding');
  entry(g => { g.fillStyle = colour.past; g.fillRect(1, 1, 20, 10); }, 'happens before the event');
}

// ---- filters ------------------------------------------------------------------------------------

const filters = ['rank', 'kernel', 'place', 'order'];
function relayout() {
  layout();
  if (chosen >= 0 && !shown[chosen]) chosen = -1;
  resize();
  if (chosen >= 0) select(chosen, true); else { select(-1); open(); }
  const hidden = N - shown.reduce((a, b) => a + b, 0);
  at('hidden').textContent = hidden > 0 ? `${hidden} events hidden` : '';
  draw();
}
// What hides an event that is asked for is taken back.
function unfilter(i) {
  if (looks[i] === 0) { wanted.collapse = false; at('collapse').checked = false; }
  layout();
  if (!shown[i]) {
    for (const name of filters) { wanted[name] = ''; at('only-' + name).value = ''; }
    layout();
  }
  resize();
}
function makeFilters() {
  const choices = {
    rank: [...new Set(agents.map(a => a.rank))].sort((a, b) => a - b).map(rank => [String(rank), `rank ${rank}`]),
    kernel: [...new Set(agents.map((a, n) => kernelOf(n)))].map(name => [name, name]),
    place: [...new Set(run.regions.filter((name, n) => usedRegions.has(n)))].map(name => [name, name]),
    order: Object.keys(orderGroups).filter(name => { for (let i = 0; i < N; ++i) if (isStep(i) && orderGroups[name](i)) return true; return false; }).map(name => [name, name]),
  };
  for (const name of filters) {
    const select = at('only-' + name);
    for (const [value, text] of choices[name]) select.append(element('option', text, {value}));
    select.parentElement.hidden = choices[name].length < 2;
    select.onchange = () => { wanted[name] = select.value; relayout(); };
  }
  at('collapse').parentElement.hidden = !anyLooks;
  at('collapse').onchange = () => { wanted.collapse = at('collapse').checked; relayout(); };
}
const usedRegions = new Set();
for (let i = 0; i < N; ++i) if (isAccess(i)) usedRegions.add(E.region[i]);

// ---- what the reader does -----------------------------------------------------------------------

function stepBy(direction) {
  let i = chosen < 0 ? (direction > 0 ? -1 : N) : chosen;
  do { i += direction; } while (i >= 0 && i < N && (!isStep(i) || !shown[i]));
  if (i >= 0 && i < N) select(i, true);
}
function stepThread(direction) {
  if (chosen < 0) return;
  let i = chosen;
  do { i = direction > 0 ? following[i] : previous[i]; } while (i >= 0 && (!isStep(i) || !shown[i]));
  if (i >= 0) select(i, true);
}
// The event of a neighbouring lane that is nearest in time.
function changeLane(direction) {
  if (chosen < 0) { stepBy(1); return; }
  for (let n = laneOf[E.agent[chosen]] + direction; n >= 0 && n < laneKeys.length; n += direction) {
    let best = -1;
    for (let i = 0; i < N; ++i) {
      if (laneOf[E.agent[i]] !== n || !isStep(i) || !shown[i]) continue;
      if (best < 0 || Math.abs(column[i] - column[chosen]) < Math.abs(column[best] - column[chosen])) best = i;
    }
    if (best >= 0) { select(best, true); return; }
  }
}
function hit(px, py) {
  const n = Math.floor((py - HEAD + view.top) / view.laneHeight);
  if (n < 0 || n >= laneKeys.length || px < GUTTER) return -1;
  const c = view.left + (px - GUTTER) / view.scale - 0.5, reach = Math.max(1, 9 / view.scale);
  let best = -1, distance = Infinity;
  for (let i = eventAt(c - reach); i < N && column[i] <= c + reach; ++i) {
    if (laneOf[E.agent[i]] !== n || !isStep(i) || !shown[i]) continue;
    const d = Math.hypot(x(column[i]) - px, y(i) - py);
    if (d < distance) { distance = d; best = i; }
  }
  return best;
}
function listen() {
  at('previous').onclick = () => stepBy(-1);
  at('next').onclick = () => stepBy(1);
  at('first').onclick = () => select(run.pair[0], true);
  at('second').onclick = () => select(run.pair[1], true);
  at('zoom-in').onclick = () => zoom(1.6, chosen >= 0 ? x(column[chosen]) : undefined);
  at('zoom-out').onclick = () => zoom(1 / 1.6);
  at('fit').onclick = fit;
  at('show-past').onchange = draw;
  at('arrows').onchange = draw;
  at('theme').onchange = applyTheme;
  document.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(SELECT|INPUT)$/.test(e.target.tagName)) return;
    const scrolls = document.activeElement === document.body || document.activeElement === lanes;
    const keys = {
      ArrowRight: () => stepBy(1), ArrowLeft: () => stepBy(-1), ']': () => stepThread(1), '[': () => stepThread(-1),
      '+': () => at('zoom-in').click(), '=': () => at('zoom-in').click(), '-': () => zoom(1 / 1.6), '0': fit,
      '1': () => run.pair[0] >= 0 && select(run.pair[0], true), '2': () => run.pair[1] >= 0 && select(run.pair[1], true),
      Home: () => { select(-1); stepBy(1); }, End: () => { select(-1); stepBy(-1); },
      s: () => chosen >= 0 && E.source[chosen] >= 0 && select(E.source[chosen], true),
      p: () => at('show-past').click(),
    };
    if (scrolls && document.activeElement === lanes) { keys.ArrowUp = () => changeLane(-1); keys.ArrowDown = () => changeLane(1); }
    const act = keys[e.key] || keys[e.key.toLowerCase()];
    if (act === undefined || e.shiftKey && e.key !== '+') return;
    e.preventDefault();
    act();
  });
  lanes.addEventListener('wheel', e => {
    e.preventDefault();
    const px = e.offsetX;
    if (e.ctrlKey || e.metaKey) { zoom(Math.exp(-e.deltaY * 0.004), px); return; }
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) view.left += (e.deltaX || e.deltaY) / view.scale;
    else if (maxTop() > 0) view.top += e.deltaY;
    else view.left += e.deltaY / view.scale;
    clampView();
    draw();
  }, {passive: false});
  let drag = null;
  lanes.addEventListener('pointerdown', e => {
    lanes.focus();
    lanes.setPointerCapture(e.pointerId);
    drag = {x: e.offsetX, y: e.offsetY, left: view.left, top: view.top, moved: false};
  });
  lanes.addEventListener('pointermove', e => {
    if (drag === null) { const i = hit(e.offsetX, e.offsetY); lanes.title = i < 0 ? '' : `step ${E.step[i]}  ${agents[E.agent[i]].name}\n${siteText(i)}\n${whatText(i)}`; return; }
    if (Math.hypot(e.offsetX - drag.x, e.offsetY - drag.y) > 4) drag.moved = true;
    if (!drag.moved) return;
    view.left = drag.left - (e.offsetX - drag.x) / view.scale;
    view.top = drag.top - (e.offsetY - drag.y);
    clampView();
    draw();
  });
  lanes.addEventListener('pointerup', e => {
    if (drag !== null && !drag.moved) { const i = hit(e.offsetX, e.offsetY); if (i >= 0) select(i); }
    drag = null;
  });
  lanes.addEventListener('pointercancel', () => { drag = null; });
  const toMap = e => {
    const w = width - GUTTER;
    view.left = (e.offsetX - GUTTER) / w * columns - w / view.scale / 2;
    clampView();
    draw();
  };
  map.addEventListener('pointerdown', e => { map.setPointerCapture(e.pointerId); toMap(e); });
  map.addEventListener('pointermove', e => { if (e.buttons & 1) toMap(e); });
  new ResizeObserver(() => {
    const box = lanes.getBoundingClientRect();
    if (box.width !== width || box.height !== height) resize();
  }).observe(at('picture'));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme);
  window.addEventListener('beforeprint', () => { setTheme('light'); tellLegend(); resize(); paint(); });
  window.addEventListener('afterprint', applyTheme);
}
function resize() {
  const ratio = window.devicePixelRatio || 1, box = lanes.getBoundingClientRect();
  const whole = width === 0;
  width = Math.max(200, box.width);
  height = Math.max(80, box.height);
  lanes.width = Math.round(width * ratio);
  lanes.height = Math.round(height * ratio);
  map.width = Math.round(width * ratio);
  map.height = Math.round(26 * ratio);
  ctx.font = 'bold 11px system-ui, "DejaVu Sans", sans-serif';
  blockAt = 8 + Math.max(...laneRank.map(rank => String(rank).length)) * ctx.measureText('0').width + ctx.measureText('rank ').width + 8;
  ctx.font = '10px system-ui, "DejaVu Sans", sans-serif';
  GUTTER = Math.ceil(blockAt + Math.max(...laneKeys.map((key, n) => streams ? `s${laneStream[n]} b${laneBlock[n]}`.length : `block ${laneBlock[n]}`.length)) * ctx.measureText('o').width + 8);
  view.laneHeight = Math.max(9, Math.min(180, (height - HEAD) / Math.max(1, laneKeys.length)));
  makeMap();
  clampView();
  if (whole) fit();
  paint();  // at once: setting a size has cleared the canvas
}
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  readColours();
}
function applyTheme() {
  const wanted = at('theme').value;
  setTheme(wanted === 'auto' ? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light') : wanted);
  tellLegend();
  if (width > 0) { makeMap(); draw(); }
}

// For tests and the console.
const api = {
  run, view, shown: () => Array.from(shown).flatMap((b, k) => b ? [k] : []), labels: () => labels, looks: i => looks[i],
  rings: () => run.pair.filter(i => i >= 0 && shown[i]).map(i => ({x: x(column[i]), y: y(i)})), gutter: () => GUTTER, past: i => Array.from(past(i)).flatMap((b, k) => b ? [k] : []), select: i => select(i, true),
  chosen: () => chosen, messages: i => { select(i); return messagesOf(i); }, get lanes() { return laneKeys.length; }, get streams() { return streamLanes.size; },
  where: i => ({x: x(column[i]), y: y(i)}), painted: 0, paint,
};
window.ringfence = api;

layout();
tellHead();
tellBeside();
makeFilters();
applyTheme();
listen();
resize();
select(run.pair[1] >= 0 ? run.pair[1] : run.pair[0] >= 0 ? run.pair[0] : run.stuck.length > 0 ? run.stuck[0].event : -1);
open();
if (chosen >= 0) show(chosen);
paint();
})();
