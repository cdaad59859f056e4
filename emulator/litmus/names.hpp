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

inline constexpr NameTable<Order, 6> kOrderNames = {{{Order::weak, "weak"},
                                                     {Order::relaxed, "relaxed"},
                                                     {Order::acquire, "acquire"},
                                                     {Order::release, "release"},
                                                     {Order::acq_rel, "acq_rel"},
                                                     {Order::sc, "sc"}}};
inline constexpr NameTable<Scope, 4> kScopeNames = {
    {{Scope::cta, "cta"}, {Scope::cluster, "cluster"}, {Scope::gpu, "gpu"}, {Scope::sys, "sys"}}};
inline constexpr NameTable<Proxy, 4> kProxyNames = {{{Proxy::Generic, "generic"},
                                                     {Proxy::Constant, "constant"},
                                                     {Proxy::Texture, "texture"},
                                                     {Proxy::Surface, "surface"}}};
inline constexpr NameTable<Combine, 11> kCombineNames = {{{Combine::add, "add"},
                                                          {Combine::sub, "sub"},
                                                          {Combine::mul, "mul"},
                                                          {Combine::div, "div"},
                                                          {Combine::and_, "and"},
                                                          {Combine::or_, "or"},
                                                          {Combine::xor_, "xor"},
                                                          {Combine::min, "min"},
                                                          {Combine::max, "max"},
                                                          {Combine::exchange, "exch"},
                                                          {Combine::cas, "cas"}}};
inline constexpr NameTable<LocalOp, 8> kLocalOpNames = {{{LocalOp::Move, "mov"},
                                                         {LocalOp::Add, "add"},
                                                         {LocalOp::Sub, "sub"},
                                                         {LocalOp::Mul, "mul"},
                                                         {LocalOp::Div, "div"},
                                                         {LocalOp::And, "and"},
                                                         {LocalOp::Or, "or"},
                                                         {LocalOp::Xor, "xor"}}};
inline constexpr NameTable<Compare, 6> kBranchNames = {{{Compare::eq, "beq"},
                                                        {Compare::ne, "bne"},
                                                        {Compare::lt, "blt"},
                                                        {Compare::le, "ble"},
                                                        {Compare::gt, "bgt"},
                                                        {Compare::ge, "bge"}}};
inline constexpr NameTable<Compare, 6> kCompareNames = {{{Compare::eq, "=="},
                                                         {Compare::ne, "!="},
                                                         {Compare::lt, "<"},
                                                         {Compare::le, "<="},
                                                         {Compare::gt, ">"},
                                                         {Compare::ge, ">="}}};
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
