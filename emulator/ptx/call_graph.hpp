#pragma once

#include <map>
#include <set>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// The parts of a call: `call (results), callee, (arguments), targets`.
struct CallSite {
  const Operand* results = nullptr;    ///< a list; null: none
  const Operand* callee = nullptr;     ///< a function or a register
  const Operand* arguments = nullptr;  ///< a list; null: none
  const Operand* targets = nullptr;    ///< label of a list of targets or a prototype; null: none
};
/// Throws nothing: what is missing is null.
CallSite call_site(const Instruction& call);

/// Which functions a kernel may reach, and which of them may call themselves.
class CallGraph {
 public:
  /// Throws Error where there are too many.
  CallGraph(const Module& module, const Function& kernel);

  /// The functions with a body that a call may reach, by their index.
  std::vector<std::uint32_t> targets(const Function& caller, const Instruction& call) const;
  /// All that the kernel may reach, by index.
  std::vector<std::uint32_t> functions() const;
  /// 0: the function cannot come back to itself. Functions that reach one another have one number.
  std::uint32_t cycle(std::uint32_t function) const { return cycle_.at(function); }
  /// Instructions of all functions of a cycle.
  std::size_t size_of_cycle(std::uint32_t cycle) const { return cycle_size_.at(cycle); }

 private:
  void note_addresses(const Function& function);
  std::set<std::uint32_t> reached_from(std::uint32_t function) const;

  const Module& module_;
  std::set<std::uint32_t> addressed_;  // functions whose address is taken
  std::map<std::uint32_t, std::vector<std::uint32_t>> calls_;
  std::map<std::uint32_t, std::uint32_t> cycle_;
  std::map<std::uint32_t, std::size_t> cycle_size_;
};

}  // namespace ringfence::ptx
