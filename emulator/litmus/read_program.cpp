// The table: a column a thread, the first row places the threads.
#include <map>
#include <utility>

#include "emulator/litmus/reader.hpp"

namespace ringfence::litmus {
namespace {

constexpr int kMaxPlace = 1023;
constexpr std::size_t kMaxThreads = 64;
constexpr std::size_t kMaxInstructions = 4096;

bool ends_table(const Token& token) {
  if (token.kind == TokenKind::End) return true;
  if (token.kind == TokenKind::Symbol) return token.text == "~";
  return token.text == "exists" || token.text == "forall" || token.text == "filter" ||
         token.text == "locations" || token.text == "not" || token.text == "final";
}

}  // namespace

void Reader::read_placements() {
  do {
    if (test_.threads.size() >= kMaxThreads) {
      fail(lexer_.peek().at, "too many threads; a test has at most " + std::to_string(kMaxThreads));
    }
    read_placement(static_cast<int>(test_.threads.size()));
  } while (accept("|"));
  expect(";", "after the threads' places");
  check_clusters();
  labels_.resize(test_.threads.size());
  branches_.resize(test_.threads.size());
  written_.resize(test_.threads.size());
  first_read_.resize(test_.threads.size());
}

void Reader::read_placement(int number) {
  const std::string wanted = "P" + std::to_string(number);
  Thread thread;
  thread.at = lexer_.peek().at;
  const Token name = expect_word("thread " + wanted);
  if (name.text != wanted) {
    fail(name.at, "thread " + wanted + " expected, not " + describe(name) +
                      "; threads are P0, P1, … from left to right");
  }
  const std::string form = "; place a thread as " + wanted + "@cta 0,gpu 0";
  std::optional<int> cta;
  std::optional<int> gpu;
  if (!accept("@")) fail(lexer_.peek().at, wanted + " is not placed" + form);
  do {
    const Token level = expect_word("cta, cluster or gpu");
    std::optional<int>* place = level.text == "cta"       ? &cta
                                : level.text == "cluster" ? &thread.cluster
                                : level.text == "gpu"     ? &gpu
                                                          : nullptr;
    if (place == nullptr) fail(level.at, "unknown level " + describe(level) + form);
    if (place->has_value()) fail(level.at, describe(level) + " is given twice" + form);
    *place = expect_small_integer("the number of the " + std::string(level.text), kMaxPlace);
  } while (accept(","));
  if (!cta) fail(thread.at, wanted + " has no cta" + form);
  if (!gpu) fail(thread.at, wanted + " has no gpu" + form);
  thread.cta = *cta;
  thread.gpu = *gpu;
  test_.threads.push_back(std::move(thread));
}

void Reader::check_clusters() const {
  std::map<std::pair<int, int>, std::optional<int>> clusters;
  for (const Thread& thread : test_.threads) {
    const auto [it, added] = clusters.try_emplace({thread.gpu, thread.cta}, thread.cluster);
    if (!added && it->second != thread.cluster) {
      fail(thread.at, "cta " + std::to_string(thread.cta) + " of gpu " +
                          std::to_string(thread.gpu) +
                          " is in two clusters; give all its threads the same one");
    }
  }
}

void Reader::declare_registers() {
  for (const PendingRegister& pending : pending_registers_) {
    if (pending.thread >= static_cast<int>(test_.threads.size())) {
      fail(pending.name.at, "no thread P" + std::to_string(pending.thread) +
                                "; the table has P0 to P" +
                                std::to_string(test_.threads.size() - 1));
    }
    const RegisterId id = reg(pending.thread, pending.name.text);
    RegisterInfo& info = test_.threads[static_cast<std::size_t>(pending.thread)]
                             .registers[static_cast<std::size_t>(id)];
    info.declared = true;
    info.initial = pending.value;
    if (pending.address) info.initial_address = use_location(*pending.address);
  }
}

void Reader::read_rows() {
  const auto threads = static_cast<int>(test_.threads.size());
  while (!ends_table(lexer_.peek())) {
    for (int column = 0; column < threads; ++column) {
      if (!next_is("|") && !next_is(";")) read_instruction(column);
      const bool last = column + 1 == threads;
      const std::string where =
          last ? "after the cell of P" + std::to_string(column) + ", the last thread"
               : "between the cells of P" + std::to_string(column) + " and P" +
                     std::to_string(column + 1);
      expect(last ? ";" : "|", where);
    }
  }
  for (const Thread& thread : test_.threads) {
    if (thread.instructions.size() > kMaxInstructions) {
      fail(thread.at,
           "too many instructions; a thread has at most " + std::to_string(kMaxInstructions));
    }
  }
}

void Reader::resolve_labels() {
  for (std::size_t t = 0; t < test_.threads.size(); ++t) {
    for (const PendingBranch& pending : branches_[t]) {
      const auto it = labels_[t].find(pending.label.text);
      if (it == labels_[t].end()) {
        fail(pending.label.at, "P" + std::to_string(t) + " has no label " +
                                   describe(pending.label) + "; give it a cell `" +
                                   std::string(pending.label.text) + ":`");
      }
      std::get<Branch>(test_.threads[t].instructions[pending.instruction].what).target = it->second;
    }
  }
}

}  // namespace ringfence::litmus
