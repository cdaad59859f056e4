// The words of the syntax, used by reader and printer alike.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "emulator/litmus/ast.hpp"

namespace ringfence::litmus {

template <class E, std::size_t N>
using NameTable = std::array<std::pair<E, std::string_view>, N>;

inline constexpr NameTable<Order, 6> kOrderNames = {{{Order::Weak, "weak"},
                                                     {Order::Relaxed, "relaxed"},
                                                     {Order::Acquire, "acquire"},
                                                     {Order::Release, "release"},
                                                     {Order::AcqRel, "acq_rel"},
                                                     {Order::Sc, "sc"}}};
inline constexpr NameTable<Scope, 4> kScopeNames = {
    {{Scope::Cta, "cta"}, {Scope::Cluster, "cluster"}, {Scope::Gpu, "gpu"}, {Scope::Sys, "sys"}}};
inline constexpr NameTable<Proxy, 4> kProxyNames = {{{Proxy::Generic, "generic"},
                                                     {Proxy::Constant, "constant"},
                                                     {Proxy::Texture, "texture"},
                                                     {Proxy::Surface, "surface"}}};
inline constexpr NameTable<AtomicOp, 11> kAtomicOpNames = {{{AtomicOp::Add, "add"},
                                                            {AtomicOp::Sub, "sub"},
                                                            {AtomicOp::Mul, "mul"},
                                                            {AtomicOp::Div, "div"},
                                                            {AtomicOp::And, "and"},
                                                            {AtomicOp::Or, "or"},
                                                            {AtomicOp::Xor, "xor"},
                                                            {AtomicOp::Min, "min"},
                                                            {AtomicOp::Max, "max"},
                                                            {AtomicOp::Exch, "exch"},
                                                            {AtomicOp::Cas, "cas"}}};
inline constexpr NameTable<LocalOp, 8> kLocalOpNames = {{{LocalOp::Move, "mov"},
                                                         {LocalOp::Add, "add"},
                                                         {LocalOp::Sub, "sub"},
                                                         {LocalOp::Mul, "mul"},
                                                         {LocalOp::Div, "div"},
                                                         {LocalOp::And, "and"},
                                                         {LocalOp::Or, "or"},
                                                         {LocalOp::Xor, "xor"}}};
inline constexpr NameTable<Comparison, 6> kBranchNames = {{{Comparison::Eq, "beq"},
                                                           {Comparison::Ne, "bne"},
                                                           {Comparison::Lt, "blt"},
                                                           {Comparison::Le, "ble"},
                                                           {Comparison::Gt, "bgt"},
                                                           {Comparison::Ge, "bge"}}};
inline constexpr NameTable<Comparison, 6> kComparisonNames = {{{Comparison::Eq, "=="},
                                                               {Comparison::Ne, "!="},
                                                               {Comparison::Lt, "<"},
                                                               {Comparison::Le, "<="},
                                                               {Comparison::Gt, ">"},
                                                               {Comparison::Ge, ">="}}};
inline constexpr NameTable<ProxyFence::Kind, 5> kProxyFenceNames = {
    {{ProxyFence::Kind::Alias, "alias"},
     {ProxyFence::Kind::Constant, "constant"},
     {ProxyFence::Kind::Texture, "texture"},
     {ProxyFence::Kind::Surface, "surface"},
     {ProxyFence::Kind::Async, "async"}}};

template <class E, std::size_t N>
constexpr std::optional<E> find_name(const NameTable<E, N>& table, std::string_view name) {
  for (const auto& [value, text] : table) {
    if (text == name) return value;
  }
  return std::nullopt;
}

// Empty for a value that the table lacks.
template <class E, std::size_t N>
constexpr std::string_view name_of(const NameTable<E, N>& table, E value) {
  for (const auto& [v, text] : table) {
    if (v == value) return text;
  }
  return {};
}

// b8 … s64
constexpr std::optional<Type> find_type(std::string_view word) {
  constexpr NameTable<int, 4> widths = {{{8, "8"}, {16, "16"}, {32, "32"}, {64, "64"}}};
  if (word.empty() || (word[0] != 'b' && word[0] != 'u' && word[0] != 's')) return std::nullopt;
  const auto bits = find_name(widths, word.substr(1));
  if (!bits) return std::nullopt;
  return Type{word[0], *bits};
}

}  // namespace ringfence::litmus
