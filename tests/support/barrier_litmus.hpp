#pragma once
// Barrier A of barriers.hpp as a litmus test: registers say what depends on what, so load buffering
// can be explored. The waits are loops around a compare-and-swap.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace ringfence::testing {

// `par`: a thread for each pair of ranks, with a bar.sync behind the store; else one thread a rank,
// all puts before all waits. The condition is that somebody reads a cell as it was.
inline std::string cas_barrier_litmus(int ranks, bool par, const std::string& put = "release",
                                      const std::string& wait = "acquire") {
  const auto pad = [](int at, int from) {
    return "p" + std::to_string(at) + "_" + std::to_string(from);
  };
  const auto data = [](int rank) { return "d" + std::to_string(rank); };
  std::string state, condition;
  std::vector<std::vector<std::string>> columns;
  for (int rank = 0; rank < ranks; ++rank) {
    state += data(rank) + "=0; ";
    for (int peer = 0; peer < ranks; ++peer) state += pad(rank, peer) + "=0; ";
    for (int t = 0; t < (par ? ranks : 1); ++t) {
      std::vector<std::string> code;
      const std::string name = "P" + std::to_string(columns.size());
      code.push_back(name + "@cta 0,gpu " + std::to_string(rank));
      const auto spin = [&](const std::string& order, const std::string& slot, int from, int to) {
        const std::string label = "L" + std::to_string(code.size());
        code.push_back(label + ":");
        code.push_back("atom." + order + ".sys.cas r99, " + slot + ", " + std::to_string(from) +
                       ", " + std::to_string(to));
        code.push_back("bne r99, " + std::to_string(from) + ", " + label);
      };
      const auto read = [&](int peer) {
        const std::string to = "r" + std::to_string(peer);
        code.push_back("ld.weak " + to + ", " + data(peer));
        condition += std::string(condition.empty() ? "" : " \\/ ") + name + ":" + to + " == 0";
      };
      if (t == 0) code.push_back("st.weak " + data(rank) + ", 1");
      if (par) {
        code.push_back("bar.cta.sync 0");
        spin(put, pad(t, rank), 0, 1);
        spin(wait, pad(rank, t), 1, 0);
        read(t);
      } else {
        for (int peer = 0; peer < ranks; ++peer) spin(put, pad(peer, rank), 0, 1);
        for (int peer = 0; peer < ranks; ++peer) spin(wait, pad(rank, peer), 1, 0);
        for (int peer = 0; peer < ranks; ++peer) read(peer);
      }
      columns.push_back(std::move(code));
    }
  }
  std::size_t rows = 0;
  for (const auto& c : columns) rows = std::max(rows, c.size());
  std::string text = "PTX barrier\n{\n" + state + "\n}\n";
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      text += (c > 0 ? " | " : " ") + (row < columns[c].size() ? columns[c][row] : "");
    }
    text += " ;\n";
  }
  return text + "~exists\n(" + condition + ")\n";
}

}  // namespace ringfence::testing
