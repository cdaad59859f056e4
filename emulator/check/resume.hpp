#pragma once
// A search as text, to go on later: the graphs that are left, and what was counted so far.
//
//     search 1                          version
//     counts COMPLETE BLOCKED BOUNDED ABANDONED EVENTS SECONDS EXPLORED
//     ordered REGION OFFSET SIZE        what Sets knows of a cell; or `ordered all`
//     agent LABEL                       hexadecimal; counted from 0
//     item SHARE
//     event AGENT NTH PIECE FLAGS REGION OFFSET SIZE FROM_AGENT FROM_NTH AFTER_AGENT AFTER_NTH ...
//     end

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/check/graph.hpp"

namespace ringfence::check {

struct Left {
  std::uint64_t complete = 0, blocked = 0, bounded = 0, abandoned = 0, events = 0;
  double seconds = 0, explored = 0;
  bool all_ordered = false;
  std::vector<CellKey> ordered;
  std::vector<LeftOut> left_out;
  std::vector<std::uint64_t> agents;
  struct Item {
    double share = 1;
    Graph graph;
  };
  std::vector<Item> items;  // the last one is explored first
};

std::string to_text(const Left& left);
// Throws std::invalid_argument naming the line (from `first_line` on) and what is due.
Left parse_left(const std::string& text, int first_line = 1);

}  // namespace ringfence::check
