#include "emulator/ptx/flow.hpp"

#include <algorithm>

namespace ringfence::ptx {

std::vector<std::uint32_t> next_ops(const Program& program, std::uint32_t op) {
  const Op& current = program.ops[op];
  std::vector<std::uint32_t> out;
  const bool guarded = static_cast<bool>(current.guard);
  switch (current.kind) {
    case Kind::branch:
      out.push_back(current.detail);
      break;
    case Kind::branch_index:
      out = program.targets[current.detail];
      break;
    case Kind::exit:
    case Kind::trap:
    case Kind::assert_fail:
      break;
    default:
      out.push_back(op + 1);
      return out;
  }
  if (guarded) out.push_back(op + 1);
  return out;
}

namespace {

bool ends_block(Kind kind) {
  return kind == Kind::branch || kind == Kind::branch_index || kind == Kind::exit ||
         kind == Kind::trap || kind == Kind::assert_fail;
}

// Depth-first without recursion: hostile texts have deep chains of blocks.
std::vector<std::uint32_t> reverse_post_order(const std::vector<Flow::Block>& blocks) {
  std::vector<std::uint32_t> post;
  std::vector<std::uint8_t> seen(blocks.size(), 0);
  struct Visit {
    std::uint32_t block;
    std::size_t next;
  };
  std::vector<Visit> stack;
  for (std::uint32_t root = 0; root < blocks.size(); ++root) {
    if (seen[root] != 0) continue;
    const std::size_t before = post.size();
    seen[root] = 1;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      Visit& top = stack.back();
      const std::vector<std::uint32_t>& successors = blocks[top.block].successors;
      if (top.next == successors.size()) {
        post.push_back(top.block);
        stack.pop_back();
        continue;
      }
      const std::uint32_t next = successors[top.next++];
      if (seen[next] == 0) {
        seen[next] = 1;
        stack.push_back({next, 0});
      }
    }
    // Later roots are unreachable: they go behind.
    std::reverse(post.begin() + static_cast<std::ptrdiff_t>(before), post.end());
  }
  return post;
}

}  // namespace

Flow analyse_flow(const Program& program) {
  const auto count = static_cast<std::uint32_t>(program.ops.size());
  std::vector<std::uint8_t> starts(count + 1, 0);
  if (count > 0) starts[0] = 1;
  for (std::uint32_t op = 0; op < count; ++op) {
    if (!ends_block(program.ops[op].kind)) continue;
    starts[op + 1] = 1;
    for (const std::uint32_t next : next_ops(program, op)) starts[next] = 1;
  }
  Flow flow;
  flow.block_of.resize(count);
  for (std::uint32_t op = 0; op < count; ++op) {
    if (starts[op] != 0) flow.blocks.push_back({op, op, {}});
    flow.blocks.back().last = op;
    flow.block_of[op] = static_cast<std::uint32_t>(flow.blocks.size() - 1);
  }
  for (Flow::Block& block : flow.blocks) {
    for (const std::uint32_t next : next_ops(program, block.last)) {
      if (next < count) block.successors.push_back(flow.block_of[next]);
    }
    std::sort(block.successors.rbegin(), block.successors.rend());
    block.successors.erase(std::unique(block.successors.begin(), block.successors.end()),
                           block.successors.end());
  }
  flow.order = reverse_post_order(flow.blocks);
  return flow;
}

}  // namespace ringfence::ptx
