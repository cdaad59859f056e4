#include "emulator/timing/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "verify/markup.hpp"

namespace ringfence::timing {
namespace {

constexpr double kLeft = 70, kTop = 60, kWidth = 430, kHeight = 300;
constexpr double kBars = 690, kBarsWidth = 400, kBar = 13, kBarStep = 18;
constexpr const char* kColours[] = {"#2a78d6", "#1baf7a", "#eda100", "#e34948",
                                    "#4a3aa7", "#e87ba4", "#008300", "#8a6d3b"};
constexpr std::size_t kColourCount = std::size(kColours);

struct Axis {
  const char* name;
  std::uint32_t (*value)(const Sizes&);
};
constexpr Axis kAxes[] = {
    {"tokens", [](const Sizes& s) { return s.tokens; }},
    {"blocks", [](const Sizes& s) { return s.blocks; }},
    {"ranks", [](const Sizes& s) { return s.ranks; }},
    {"waves", [](const Sizes& s) { return s.waves; }},
};

const Axis& widest(const std::vector<Case>& cases) {
  const Axis* best = &kAxes[0];
  std::size_t most = 0;
  for (const Axis& a : kAxes) {
    std::set<std::uint32_t> values;
    for (const Case& c : cases) values.insert(a.value(c.sizes));
    if (values.size() > most) {
      most = values.size();
      best = &a;
    }
  }
  return *best;
}

// "peer, 8 blocks": the transport, and what varies besides `axis`.
std::string series(const Sizes& s, const std::vector<Case>& cases, const Axis* axis) {
  std::string text = name(s.transport);
  for (const Axis& a : kAxes) {
    if (&a == axis) continue;
    const bool varies = std::any_of(cases.begin(), cases.end(), [&](const Case& c) {
      return a.value(c.sizes) != a.value(cases.front().sizes);
    });
    if (varies) text += fmt::format(", {} {}", a.value(s), a.name);
  }
  return text;
}

struct Scale {
  double low, high, from, length;
  double operator()(double v) const {
    const double span = std::max(1e-9, std::log(high / low));
    return from + length * std::log(v / low) / span;
  }
};

void line_plot(std::string& out, const std::vector<Case>& cases, const Axis& axis) {
  double least = 1e300, most = 0;
  std::set<std::uint32_t> xs;
  std::map<std::string, std::map<std::uint32_t, double>> lines;
  for (const Case& c : cases) {
    const double us = c.timing.microseconds();
    least = std::min(least, us);
    most = std::max(most, us);
    xs.insert(axis.value(c.sizes));
    lines[series(c.sizes, cases, &axis)][axis.value(c.sizes)] = us;
  }
  const double floor = std::pow(10, std::floor(std::log10(least)));
  const double top = std::pow(10, std::ceil(std::log10(most * 1.0001)));
  const Scale x{static_cast<double>(*xs.begin()), static_cast<double>(*xs.rbegin()), kLeft, kWidth};
  const Scale y{floor, top, kTop + kHeight, -kHeight};
  for (double us = floor; us <= top * 1.001; us *= 10) {
    out += fmt::format("<line class='grid' x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}'/>\n",
                       kLeft, kLeft + kWidth, y(us), y(us));
    out += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{:g}</text>\n", kLeft - 8,
                       y(us) + 4, us);
  }
  for (const std::uint32_t v : xs) {
    out += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", x(v),
                       kTop + kHeight + 18, v);
  }
  out += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n",
                     kLeft + kWidth / 2, kTop + kHeight + 38, axis.name);
  out += fmt::format("<text x='{:.1f}' y='{:.1f}'>us</text>\n", kLeft - 30, kTop - 12);
  std::size_t n = 0;
  for (const auto& [text, points] : lines) {
    const char* colour = kColours[n % kColourCount];
    std::string path;
    for (const auto& [v, us] : points) path += fmt::format("{:.1f},{:.1f} ", x(v), y(us));
    out += fmt::format("<polyline fill='none' stroke='{}' stroke-width='2' points='{}'/>\n", colour,
                       path);
    for (const auto& [v, us] : points) {
      out += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'><title>{}: {:.2f} us</title>"
          "</circle>\n",
          x(v), y(us), colour, verify::for_element(text), us);
    }
    const double at = kTop + kHeight + 60 + 18 * static_cast<double>(n);
    out += fmt::format("<rect x='{:.1f}' y='{:.1f}' width='14' height='4' fill='{}'/>\n", kLeft,
                       at - 6, colour);
    out += fmt::format("<text x='{:.1f}' y='{:.1f}'>{}</text>\n", kLeft + 20, at,
                       verify::for_element(text));
    ++n;
  }
}

void bars(std::string& out, const std::vector<Case>& cases) {
  for (std::size_t i = 0; i < schedule::kSpent; ++i) {
    const double at = kBars - 100 + 74 * static_cast<double>(i);
    out += fmt::format("<rect x='{:.1f}' y='{:.1f}' width='10' height='10' fill='{}'/>\n", at,
                       kTop - 21, kColours[i]);
    out += fmt::format("<text x='{:.1f}' y='{:.1f}'>{}</text>\n", at + 14, kTop - 12,
                       name(static_cast<schedule::Spent>(i)));
  }
  double y = kTop;
  for (const Case& c : cases) {
    const auto whole = static_cast<double>(std::max<Time>(1, c.timing.account.at));
    std::string text = series(c.sizes, cases, nullptr);
    out += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n", kBars - 6,
                       y + kBar - 2, verify::for_element(text));
    double x = kBars;
    for (std::size_t i = 0; i < schedule::kSpent; ++i) {
      const auto part = static_cast<double>(c.timing.account.spent[i]);
      const double w = kBarsWidth * part / whole;
      if (w <= 0) continue;
      out += fmt::format(
          "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{}' fill='{}'><title>{} {:.2f} us"
          "</title></rect>\n",
          x, y, w, kBar, kColours[i], name(static_cast<schedule::Spent>(i)), part / 1e6);
      x += w;
    }
    out += fmt::format("<text x='{:.1f}' y='{:.1f}'>{:.1f} us</text>\n", kBars + kBarsWidth + 6,
                       y + kBar - 2, c.timing.microseconds());
    y += kBarStep;
  }
}

}  // namespace

std::string plot(const std::vector<Case>& all, const std::string& title) {
  std::vector<Case> cases;
  std::copy_if(all.begin(), all.end(), std::back_inserter(cases),
               [](const Case& c) { return c.timing.clean; });
  std::set<std::string> lines;
  const Axis& axis = widest(cases);
  for (const Case& c : cases) lines.insert(series(c.sizes, cases, &axis));
  const double height = std::max(kTop + kHeight + 70 + 18 * static_cast<double>(lines.size()),
                                 kTop + 20 + kBarStep * static_cast<double>(cases.size()));
  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1180 {0:.0f}' width='1180' "
      "height='{0:.0f}' font-family='sans-serif' font-size='12'>\n"
      "<style>text {{ fill: #222 }} .grid {{ stroke: #ccc }} .page {{ fill: #fff }}\n"
      "@media (prefers-color-scheme: dark) {{ text {{ fill: #ddd }} .grid {{ stroke: #444 }} "
      ".page {{ fill: #16181c }} }}</style>\n"
      "<rect class='page' width='100%' height='100%'/>\n",
      height);
  out += fmt::format("<text x='{:.0f}' y='24' font-size='15'>{}</text>\n", kLeft,
                     verify::for_element(title));
  if (cases.empty()) {
    out += fmt::format("<text x='{:.0f}' y='60'>no case without a finding</text>\n", kLeft);
  } else {
    line_plot(out, cases, axis);
    bars(out, cases);
  }
  return out + "</svg>\n";
}

}  // namespace ringfence::timing
