#!/usr/bin/env python3
"""Clicks through the HTML page in headless Chromium, by WebDriver and nothing but the standard library.

  page_test.py RINGFENCE TRACES OUT     exit 0 passed, 1 failed, 77 no Chromium here

Screenshots go to OUT, for people to look at.
"""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--window-size=1400,1000", "--force-device-scale-factor=1"]
STREAMS = "streams-fixed.toml"
LOOKS = "sentinel-fault.toml"
RIGHT, LEFT, DOWN, HOME = "\ue014", "\ue012", "\ue015", "\ue011"


class Browser:
    def __init__(self, driver, chromium):
        self.profile = tempfile.mkdtemp(prefix="ringfence-page-")
        self.process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.base = f"http://127.0.0.1:{found.group(1)}/session"
                break
        else:
            raise RuntimeError("chromedriver did not start")
        options = {"binary": chromium, "args": FLAGS + [f"--user-data-dir={self.profile}"]}
        answer = self.post("", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.base += "/" + answer["sessionId"]

    def post(self, path, body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode()[:500]}") from error

    def open(self, path):
        self.post("/url", {"url": "file://" + path})

    def run(self, script, *arguments):
        return self.post("/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector):
        element = self.post("/element", {"using": "css selector", "value": selector})
        self.post(f"/element/{list(element.values())[0]}/click", {})

    def press(self, *keys):
        actions = []
        for key in keys:
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click_at(self, x, y):
        self.post("/actions", {"actions": [{
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": [{"type": "pointerMove", "x": round(x), "y": round(y)},
                        {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]}]})

    def picture(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.post("/goog/cdp/execute", {
                "cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": True}})["data"]))

    def complaints(self):
        return [e["message"] for e in self.post("/se/log", {"type": "browser"})
                if e["level"] == "SEVERE"]

    def close(self):
        try:
            urllib.request.urlopen(urllib.request.Request(self.base, method="DELETE"), timeout=30)
        finally:
            self.process.terminate()
            self.process.wait(10)
            shutil.rmtree(self.profile, ignore_errors=True)


checks = {"passed": 0, "failed": 0}


def check(claim, truth, told=""):
    checks["passed" if truth else "failed"] += 1
    if not truth:
        print(f"FAILED: {claim} {told}")


def race(b, page, out):
    b.open(page)
    pair = b.run("return ringfence.run.pair")
    check("the second access is chosen when the page opens", b.run("return ringfence.chosen()") == pair[1])
    check("a racing access is not in the past of the other",
          pair[0] not in b.run("return ringfence.past(arguments[0])", pair[1]))
    b.picture(os.path.join(out, "race-light.png"))
    b.click("#first")
    check("the button chooses the first access", b.run("return ringfence.chosen()") == pair[0])
    check("the panel says so", "first access" in b.run("return document.getElementById('event').textContent"))
    b.press("2")
    check("the key 2 chooses the second", b.run("return ringfence.chosen()") == pair[1])
    rows = b.run("return ringfence.messages(arguments[0]).map(m => m.event)", pair[1])
    check("the location's messages hold the unordered write", pair[0] in rows)
    check("its row says read here or unordered", re.search(
        "unordered|read here", b.run("return document.getElementById('messages').textContent")) is not None)
    # Steps by key; a thread's own steps by brackets.
    b.press(HOME)
    steps = []
    for _ in range(5):
        steps.append(b.run("return ringfence.run.events.step[ringfence.chosen()]"))
        b.press(RIGHT)
    check("Right goes on in the order of the run", steps == sorted(steps) and steps[-1] > steps[0], steps)
    here = b.run("return ringfence.chosen()")
    b.press(RIGHT, LEFT)
    check("Left undoes Right", b.run("return ringfence.chosen()") == here)
    agent = b.run("return ringfence.run.events.agent[ringfence.chosen()]")
    b.press("]")
    check("] stays in the thread", b.run("return ringfence.run.events.agent[ringfence.chosen()]") == agent)
    b.run("document.getElementById('lanes').focus()")
    rank = "return ringfence.run.agents[ringfence.run.events.agent[ringfence.chosen()]].rank"
    before = b.run(rank)
    b.press(DOWN)
    check("Down goes to the next rank's lane", b.run(rank) != before or before == 1)
    # A click on a drawn event chooses it.
    b.click("#fit")
    box = b.run("const r = document.getElementById('lanes').getBoundingClientRect(); return [r.x, r.y]")
    where = b.run("return ringfence.where(ringfence.run.pair[0])")
    b.click_at(box[0] + where["x"], box[1] + where["y"])
    check("a click chooses the event under it", b.run("return ringfence.chosen()") == pair[0])
    b.run("document.querySelectorAll('#matter tr.can')[1].click()")
    check("a row of the steps that matter chooses its step",
          b.run("return ringfence.chosen()") == b.run("return ringfence.run.matter[1]"))
    scale = b.run("return ringfence.view.scale")
    b.press("-")
    check("the whole run stays in view", b.run("return ringfence.view.scale") <= scale)
    # Colours: the canvas follows.
    light = b.run("return document.getElementById('lanes').getContext('2d').getImageData(2, 200, 1, 1).data[0]")
    b.run("const t = document.getElementById('theme'); t.value = 'dark'; t.onchange(); ringfence.paint()")
    dark = b.run("return document.getElementById('lanes').getContext('2d').getImageData(2, 200, 1, 1).data[0]")
    check("the dark theme is darker on the canvas too", dark < 80 < 180 < light, (dark, light))
    b.picture(os.path.join(out, "race-dark.png"))
    pdf = base64.b64decode(b.post("/goog/cdp/execute", {"cmd": "Page.printToPDF", "params": {"landscape": True}})["data"])
    with open(os.path.join(out, "race.pdf"), "wb") as f:
        f.write(pdf)
    check("it prints", pdf.startswith(b"%PDF") and len(pdf) > 10000)
    check("nothing is fetched", b.run("return performance.getEntriesByType('resource').length") == 0)


def paper(b, page, out):
    """What the printer gets: A4 landscape, from the dark theme."""
    b.open(page)
    cdp = lambda cmd, **params: b.post("/goog/cdp/execute", {"cmd": cmd, "params": params})
    b.run("const t = document.getElementById('theme'); t.value = 'dark'; t.onchange(); ringfence.paint()")
    cdp("Emulation.setDeviceMetricsOverride", width=1032, height=700, deviceScaleFactor=1, mobile=False)
    cdp("Emulation.setEmulatedMedia", media="print")
    b.run("window.dispatchEvent(new Event('beforeprint'))")
    told = b.run("""
      const px = s => parseFloat(s), luminance = rgb => {
        const c = rgb.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
      };
      const shown = [...document.querySelectorAll('body *')].filter(e => e.getClientRects().length > 0);
      const texts = shown.filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim() !== ''));
      const body = getComputedStyle(document.body), wide = document.documentElement;
      const canvas = document.getElementById('lanes').getBoundingClientRect();
      return {
        small: texts.map(e => px(getComputedStyle(e).fontSize)).reduce((a, b) => Math.min(a, b), 99),
        faint: texts.map(e => luminance(getComputedStyle(e).color)).reduce((a, b) => Math.max(a, b), 0),
        paper: luminance(body.backgroundColor === 'rgba(0, 0, 0, 0)' ? 'rgb(255, 255, 255)' : body.backgroundColor),
        over: wide.scrollWidth - wide.clientWidth,
        cut: texts.filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible').length,
        nav: getComputedStyle(document.querySelector('nav')).display,
        canvas: [canvas.left, canvas.right, canvas.height],
        light: document.getElementById('lanes').getContext('2d').getImageData(2, 200, 1, 1).data[0]};""")
    check("on paper it is light, whatever the screen's theme", told["paper"] > 0.8 and told["light"] > 180, told)
    check("its text stands out from the paper by 3 to 1", (told["paper"] + 0.05) / (told["faint"] + 0.05) >= 3, told)
    check("no text is smaller than 8 px", told["small"] >= 8, told["small"])
    check("nothing is wider than the sheet", told["over"] <= 0, told["over"])
    check("no text is cut off", told["cut"] == 0, told["cut"])
    check("the buttons are not printed", told["nav"] == "none")
    check("the picture is on the sheet, as high as half of it",
          told["canvas"][0] >= 0 and told["canvas"][1] <= 1032 and told["canvas"][2] > 200, told["canvas"])
    ink = b.run("return document.querySelector('#legend canvas').getContext('2d').getImageData(11, 6, 1, 1).data[0]")
    check("the legend is in dark ink too", ink < 80, ink)
    b.picture(os.path.join(out, "paper.png"))
    pdf = base64.b64decode(cdp("Page.printToPDF", landscape=True, paperWidth=11.69, paperHeight=8.27,
                               preferCSSPageSize=True)["data"])
    with open(os.path.join(out, "paper.pdf"), "wb") as f:
        f.write(pdf)
    sheets = len(re.findall(rb"/Type\s*/Page[^s]", pdf))
    check("a finding takes at most four sheets", 1 <= sheets <= 4, sheets)
    cdp("Emulation.setEmulatedMedia", media="")
    cdp("Emulation.clearDeviceMetricsOverride")


def streams(b, page, out):
    """Two streams of a rank are lanes of their own, each with its kernel boundaries."""
    b.open(page)
    ranks = b.run("return new Set(ringfence.run.agents.map(a => a.rank)).size")
    check("two streams a rank are shown", b.run("return ringfence.streams") == 2 * ranks,
          (ranks, b.run("return ringfence.streams")))
    apart = b.run("""
      const lanes = new Map();
      for (const a of ringfence.run.agents) {
        const key = a.rank + ':' + a.block + ':' + a.stream;
        if (!lanes.has(key)) lanes.set(key, new Set());
        lanes.get(key).add(a.launch);
      }
      return [lanes.size, ringfence.lanes];""")
    check("a block of each stream has a lane of its own", apart[0] == apart[1], apart)
    said = b.run("""
      const a = ringfence.run.agents.findIndex(a => a.stream === 1);
      ringfence.select(ringfence.run.events.agent.indexOf(a));
      return document.getElementById('event').textContent;""")
    check("an event says its stream", "on stream 1" in said, said)
    b.picture(os.path.join(out, "streams.png"))


def deadlock(b, page, out):
    b.open(page)
    check("the cycle is marked", b.run("return document.querySelectorAll('#stuck tr.fault').length") >= 2)
    b.run("document.querySelectorAll('#stuck tr.can')[1].click()")
    check("a stuck agent's row chooses its last step",
          b.run("return ringfence.chosen()") == b.run("return ringfence.run.stuck[1].event"))
    b.picture(os.path.join(out, "deadlock.png"))


def ordered(b, page, out):
    """A clean run: the broadcast stores of a peer are in the past of the consumer's loads."""
    b.open(page)
    missing = b.run("""
      const r = ringfence.run, e = r.events; let loads = 0, bad = 0;
      for (let i = 0; i < e.kind.length; ++i) {
        if (r.agents[e.agent[i]].phase !== 2 || e.kind[i] !== 0 || e.source[i] < 0) continue;
        ++loads;
        if (!ringfence.past(i).includes(e.source[i])) ++bad;
      }
      return [loads, bad];""")
    check("what a consumer loads was stored before it", missing[0] > 0 and missing[1] == 0, missing)


def beside(b, page, out):
    """A schedule that passes stands beside the finding, and what is otherwise there is marked."""
    b.open(page)
    told = b.run("""
      const rows = [...document.querySelectorAll('#beside tr.can')];
      return [rows.length, rows.filter(r => r.classList.contains('differs')).length, document.getElementById('beside-section').hidden];""")
    check("the finding stands beside a schedule that passes, differences marked", told[0] > 0 and told[1] > 0 and not told[2], told)
    b.run("document.querySelector('#beside tr.can').click()")
    check("its row chooses the step", b.run("return ringfence.chosen()") == b.run("return ringfence.run.beside.rows[0].event"))
    b.picture(os.path.join(out, "beside.png"))


WIDTHS = (1400, 800, 420)


def set_width(b, width):
    b.post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}})


def labels(b, page, out):
    """No label touches another one or lies under a ring, however wide the window is."""
    for width in WIDTHS:
        set_width(b, width)
        b.open(page)
        b.run("ringfence.paint()")
        told = b.run("""
          const labels = ringfence.labels(), rings = ringfence.rings(), bad = [];
          const meet = (a, c) => a.x < c.x + c.w && c.x < a.x + a.w && a.y < c.y + c.h && c.y < a.y + a.h;
          labels.forEach((a, i) => labels.slice(0, i).forEach(c => { if (meet(a, c)) bad.push([a.text, c.text]); }));
          for (const ring of rings) {
            const around = {x: ring.x - 9, y: ring.y - 9, w: 18, h: 18};
            for (const a of labels) if (meet(a, around)) bad.push([a.text, 'a ring']);
          }
          return {texts: labels.map(l => l.text), bad, rings: rings.length,
                  over: document.documentElement.scrollWidth - document.documentElement.clientWidth};""")
        name = f"{os.path.basename(page)} at {width}"
        check(f"labels of {name} touch nothing", not told["bad"], told["bad"])
        check(f"{name} has labels", len(told["texts"]) > 6, told["texts"])
        if told["rings"] == 2:
            check(f"both accesses of {name} are named", {"first", "second"} <= set(told["texts"]), told["texts"])
        check(f"{name} is no wider than the window", told["over"] <= 0, told["over"])
        b.picture(os.path.join(out, f"{os.path.basename(page)[:-5]}-{width}.png"))
    b.post("/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})


def filters(b, page, out):
    """Only what is asked for is shown, and the finding; what is asked for by a jump comes back."""
    labels(b, page, out)
    b.open(page)
    everything = b.run("return ringfence.shown().length")
    choose = """
      const s = document.getElementById('only-' + arguments[0]); s.value = arguments[1]; s.onchange(); ringfence.paint();
      const r = ringfence.run, E = r.events, pair = r.pair;
      return ringfence.shown().filter(i => !pair.includes(i) && E.kind[i] < 6).map(i => [
        r.agents[E.agent[i]].rank, r.kernels[r.agents[E.agent[i]].kernel], r.regions[E.region[i]], E.order[i]]);"""
    kernels = b.run("return [...document.querySelectorAll('#only-kernel option')].map(o => o.value)")
    check("kernels have their names", any("scope" in k for k in kernels), kernels)
    name = next((k for k in kernels if "scope" in k), "")
    place = b.run("return document.querySelectorAll('#only-place option')[1].value")
    for key, value, column, wanted in (("rank", "1", 0, 1), ("kernel", name, 1, name), ("place", place, 2, place),
                                       ("order", "weak", 3, 0)):
        rows = b.run(choose, key, value)
        check(f"only {key} {value} is shown", rows and all(r[column] == wanted for r in rows), rows[:3])
        check(f"{key} {value} hides the rest", len(rows) < everything, (len(rows), everything))
        check("the finding stays in sight", b.run(
            "const s = new Set(ringfence.shown()); return ringfence.run.pair.every(i => s.has(i))"))
        b.run(choose, key, "")
        check(f"without a filter by {key} all is shown again", b.run("return ringfence.shown().length") == everything)
    b.run(choose, "rank", "1")
    other = b.run("return ringfence.run.events.agent.findIndex(a => ringfence.run.agents[a].rank === 0)")
    b.run("ringfence.select(arguments[0])", other)
    check("a jump to what is hidden takes the filter back",
          b.run("return ringfence.chosen()") == other and b.run("return ringfence.shown().length") == everything)


def collapsed(b, page, out):
    """Looks of a wait that find the same are one mark, until they are asked for."""
    b.open(page)
    told = b.run("""
      const n = ringfence.run.events.kind.length, looks = [];
      for (let i = 0; i < n; ++i) looks.push(ringfence.looks(i));
      const before = ringfence.shown().length;
      document.getElementById('collapse').click();
      return {n, before, after: ringfence.shown().length, hidden: looks.filter(k => k === 0).length, most: Math.max(...looks)};""")
    check("the run has a wait of several looks", told["most"] > 1, told)
    check("its looks are one mark", told["before"] == told["n"] - told["hidden"], told)
    check("and all of them when they are asked for", told["after"] == told["n"], told)


def found_in_large(b, page, out):
    b.open(page)
    told = b.run("""
      const E = ringfence.run.events, [a, c] = ringfence.run.pair, w = document.getElementById('lanes').clientWidth;
      return {n: E.kind.length, painted: ringfence.painted, a: ringfence.where(a).x, c: ringfence.where(c).x, w, chosen: ringfence.chosen() === c};""")
    check("a large run's page opens at its finding", told["chosen"] and 0 < told["a"] < told["w"] and 0 < told["c"] < told["w"], told)
    print(f"{told['n']} events with a finding: drawn after {told['painted']:.0f} ms of navigation (goal 2000)")
    check("within two seconds", told["painted"] < 2000, told["painted"])
    b.picture(os.path.join(out, "large-race.png"))


def large(b, page, out):
    b.open(page)
    n = b.run("return ringfence.run.events.kind.length")
    check("the page has 100,000 events", n >= 100000, n)
    check("8 ranks of 16 blocks are its lanes", b.run("return ringfence.lanes") == 128)
    figure = b.run("""
      const t = performance.now(); ringfence.paint(); const whole = performance.now() - t;
      ringfence.select(60000); for (let i = 0; i < 12; ++i) document.getElementById('zoom-in').click();
      const s = performance.now(); ringfence.paint(); return [ringfence.painted, whole, performance.now() - s];""")
    opened = b.run("return performance.getEntriesByType('paint').map(p => p.startTime)[0]")
    print(f"{n} events: first picture after {opened:.0f} ms, drawn after {figure[0]:.0f} ms of navigation at most; "
          f"a frame of the whole run {figure[1]:.0f} ms, zoomed in {figure[2]:.0f} ms (not judged)")
    b.picture(os.path.join(out, "large.png"))
    b.click("#fit")
    b.run("document.getElementById('lanes').focus()")
    b.press("+", "+", RIGHT)
    check("it answers to keys", b.run("return ringfence.chosen()") > 60000)
    b.picture(os.path.join(out, "large-whole.png"))


def main():
    ringfence, traces, out = sys.argv[1:4]
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        print("page-test: skipped: no chromium and chromedriver (Debian: chromium chromium-driver)")
        return 77
    os.makedirs(out, exist_ok=True)
    out = os.path.abspath(out)

    def page(name, status, *arguments):
        path = os.path.join(out, name + ".html")
        code = subprocess.run([ringfence, *arguments, "--html", path], stdout=subprocess.DEVNULL,
                              cwd=out, check=False).returncode
        check(f"ringfence {arguments[0]} writes {name}", code == status, code)
        return path

    trace = lambda name: os.path.join(os.path.abspath(traces), name + ".trace.jsonl")
    pages = [
        (race, page("race", 1, "replay", trace("end-put-relaxed"))),
        (paper, page("paper", 1, "replay", trace("end-put-relaxed"))),
        (streams, page("streams", 0, "fuzz", "--case", os.path.join(os.path.dirname(os.path.abspath(traces)),
                       "tests/zoo", STREAMS), "--schedules", "20", "--executor", "inline")),
        (deadlock, page("deadlock", 1, "replay", trace("slot-wrong"))),
        (ordered, page("clean", 0, "fuzz", "--ranks", "2", "--tokens", "4", "--blocks", "2", "--boundary", "coherent",
                       "--schedules", "1", "--executor", "inline")),
        (beside, page("beside", 1, "replay", trace("put-before-block-barrier"))),
        (labels, page("race-labels", 1, "replay", trace("end-put-relaxed"))),
        (labels, page("deadlock-labels", 1, "replay", trace("slot-wrong"))),
        (filters, page("case", 1, "fuzz", "--case", os.path.join(os.path.dirname(os.path.abspath(traces)), "tests/zoo",
                       "scope-fault.toml"), "--boundary", "stream", "--executor", "inline", "--no-remedies")),
        (collapsed, page("looks", 1, "fuzz", "--case", os.path.join(os.path.dirname(os.path.abspath(traces)), "tests/zoo",
                         LOOKS), "--boundary", "stream", "--executor", "inline", "--no-remedies", "--no-shrink", "--seed", "3")),
        (found_in_large, page("large-race", 1, "fuzz", "--ranks", "8", "--blocks", "16", "--tokens", "320", "--hidden", "64",
                              "--set", "end.put=relaxed", "--boundary", "coherent", "--schedules", "1", "--no-shrink",
                              "--no-remedies", "--executor", "inline")),
        (large, page("large", 0, "run", "--ranks", "8", "--blocks", "16", "--tokens", "320", "--hidden", "64",
                     "--executor", "inline")),
    ]
    b = Browser(driver, chromium)
    try:
        for test, path in pages:
            test(b, path, out)
            complaints = b.complaints()
            check(f"no complaint on {os.path.basename(path)}", not complaints, complaints)
    finally:
        b.close()
    print(f"page-test: {checks['passed']} passed, {checks['failed']} failed; pictures in {out}")
    return 1 if checks["failed"] or not checks["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
