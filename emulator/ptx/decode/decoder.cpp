#include "emulator/ptx/decode/decoder.hpp"

#include <bit>

#include "emulator/ptx/calls.hpp"
#include "emulator/ptx/error.hpp"

namespace ringfence::ptx {

Decoder::Decoder(const Module& module, const Function& function, Program& program)
    : module_(module), function_(function), program_(program) {
  for (const Register& reg : function.registers) register_types_.push_back(reg.type);
  // The carry of add.cc and sub.cc is one more predicate register.
  carry_register_ = static_cast<std::uint32_t>(register_types_.size());
  register_types_.push_back(Type::pred);
}

const std::map<std::string_view, Decoder::Method>& Decoder::table() {
  static const std::map<std::string_view, Method> methods = {
      {"add", &Decoder::add_sub},
      {"sub", &Decoder::add_sub},
      {"addc", &Decoder::add_sub},
      {"subc", &Decoder::add_sub},
      {"mul", &Decoder::mul},
      {"mul24", &Decoder::mul},
      {"mad", &Decoder::mad},
      {"mad24", &Decoder::mad},
      {"fma", &Decoder::fma},
      {"div", &Decoder::div},
      {"rem", &Decoder::rem},
      {"min", &Decoder::min_max},
      {"max", &Decoder::min_max},
      {"neg", &Decoder::neg_abs},
      {"abs", &Decoder::neg_abs},
      {"sad", &Decoder::sad},
      {"rcp", &Decoder::unary_function},
      {"sqrt", &Decoder::unary_function},
      {"rsqrt", &Decoder::unary_function},
      {"ex2", &Decoder::unary_function},
      {"lg2", &Decoder::unary_function},
      {"sin", &Decoder::unary_function},
      {"cos", &Decoder::unary_function},
      {"tanh", &Decoder::unary_function},
      {"and", &Decoder::logic},
      {"or", &Decoder::logic},
      {"xor", &Decoder::logic},
      {"not", &Decoder::bit_not},
      {"cnot", &Decoder::bit_not},
      {"shl", &Decoder::shift},
      {"shr", &Decoder::shift},
      {"shf", &Decoder::funnel},
      {"bfe", &Decoder::bit_field},
      {"bfi", &Decoder::bit_field},
      {"brev", &Decoder::bit_count},
      {"popc", &Decoder::bit_count},
      {"clz", &Decoder::bit_count},
      {"bfind", &Decoder::bit_count},
      {"bmsk", &Decoder::mask_or_extend},
      {"szext", &Decoder::mask_or_extend},
      {"fns", &Decoder::fns},
      {"prmt", &Decoder::permute},
      {"lop3", &Decoder::lop3},
      {"dp4a", &Decoder::dot_product},
      {"dp2a", &Decoder::dot_product},
      {"vabsdiff4", &Decoder::distances},
      {"mov", &Decoder::mov},
      {"selp", &Decoder::selp},
      {"slct", &Decoder::slct},
      {"setp", &Decoder::setp},
      {"set", &Decoder::set},
      {"testp", &Decoder::testp},
      {"copysign", &Decoder::copysign},
      {"cvt", &Decoder::cvt},
      {"ld", &Decoder::load},
      {"ldu", &Decoder::load},
      {"st", &Decoder::store},
      {"atom", &Decoder::atomic},
      {"red", &Decoder::atomic},
      {"multimem", &Decoder::multimem},
      {"fence", &Decoder::fence},
      {"membar", &Decoder::membar},
      {"cvta", &Decoder::cvta},
      {"isspacep", &Decoder::isspacep},
      {"mapa", &Decoder::mapa},
      {"createpolicy", &Decoder::create_policy},
      {"prefetch", &Decoder::hint},
      {"prefetchu", &Decoder::hint},
      {"pmevent", &Decoder::hint},
      {"applypriority", &Decoder::hint},
      {"setmaxnreg", &Decoder::hint},
      {"bra", &Decoder::bra},
      {"brx", &Decoder::brx},
      {"ret", &Decoder::ret},
      {"exit", &Decoder::ret},
      {"trap", &Decoder::trap},
      {"brkpt", &Decoder::trap},
      {"call", &Decoder::call},
      {kTooDeep, &Decoder::no_call},
      {kNoTarget, &Decoder::no_call},
      {"bar", &Decoder::bar},
      {"barrier", &Decoder::barrier},
      {"shfl", &Decoder::shfl},
      {"vote", &Decoder::vote},
      {"match", &Decoder::match},
      {"redux", &Decoder::redux},
      {"elect", &Decoder::elect},
      {"activemask", &Decoder::active_mask},
      {"nanosleep", &Decoder::nanosleep},
      {"griddepcontrol", &Decoder::griddepcontrol},
      {"cp", &Decoder::cp},
      {"mbarrier", &Decoder::mbarrier},
      {"ldmatrix", &Decoder::ldmatrix},
      {"stmatrix", &Decoder::ldmatrix},
      {"mma", &Decoder::mma},
      {"wgmma", &Decoder::wgmma},
  };
  return methods;
}

void Decoder::instruction(std::uint32_t index) {
  in_ = &function_.instructions[index];
  mods_ = Modifiers(in_->modifiers);
  op_ = Op{};
  op_.line = in_->line;
  if (in_->guard >= 0) {
    op_.guard = Slot::reg(static_cast<std::uint32_t>(in_->guard));
    op_.guard_negated = in_->guard_negated;
  }
  const auto it = table().find(in_->opcode);
  if (it == table().end()) fail("unsupported instruction");
  (this->*it->second)();
  if (!mods_.empty()) fail("unsupported modifier '." + std::string(mods_.first()) + "'");
  program_.ops[index] = op_;
}

void Decoder::fail(const std::string& reason) const {
  // Nobody has the PTX that nvcc made of a .cu file: the line of the source is due.
  const std::optional<SourceLocation>& at = in_->location;
  if (module_.file_of(in_->unit).ends_with(".cu") && at && at->line != 0 &&
      at->file < module_.files.size()) {
    throw Error(module_.files[at->file], at->line, reason, in_->text);
  }
  throw Error(module_.file_of(in_->unit), in_->line, reason, in_->text);
}

const Operand& Decoder::operand(std::size_t index) const {
  if (index >= in_->operands.size()) fail("too few operands");
  return in_->operands[index];
}

void Decoder::operand_count(std::size_t least, std::size_t most) const {
  if (in_->operands.size() < least) fail("too few operands");
  if (in_->operands.size() > most) fail("too many operands");
}

Type Decoder::type() {
  const auto found = mods_.take_type();
  if (!found) fail("the instruction has no type");
  return *found;
}

Type Decoder::register_type(const Operand& operand) const {
  if (operand.kind != Operand::Kind::reg) fail("a register is needed");
  return function_.registers[operand.index].type;
}

bool Decoder::is_wide(const Operand& operand) const { return size_of(register_type(operand)) == 8; }

std::uint64_t Decoder::literal(const Operand& operand, Type type) const {
  const unsigned bytes = size_of(type);
  switch (operand.kind) {
    case Operand::Kind::integer:
      if (type == Type::f32 || type == Type::f64) {
        const auto value = static_cast<double>(static_cast<std::int64_t>(operand.value));
        return type == Type::f64 ? std::bit_cast<std::uint64_t>(value)
                                 : std::bit_cast<std::uint32_t>(static_cast<float>(value));
      }
      return bytes >= 8 ? operand.value : operand.value & ((1ULL << (8 * bytes)) - 1);
    case Operand::Kind::float32:
      if (type == Type::f64) {
        const float value = std::bit_cast<float>(static_cast<std::uint32_t>(operand.value));
        return std::bit_cast<std::uint64_t>(static_cast<double>(value));
      }
      return operand.value;
    case Operand::Kind::float64:
      if (bytes == 8) return operand.value;
      if (bytes == 4) {
        const double value = std::bit_cast<double>(operand.value);
        return std::bit_cast<std::uint32_t>(static_cast<float>(value));
      }
      break;
    default:
      break;
  }
  fail("the operand does not fit the type ." + std::string(name_of(type)));
}

std::uint64_t Decoder::immediate(std::size_t index) const {
  if (operand(index).kind != Operand::Kind::integer) fail("an integer constant is needed");
  return operand(index).value;
}

Slot Decoder::constant(Constant value) {
  const auto key = std::make_tuple(static_cast<int>(value.source) * 64 + (value.wide ? 32 : 0) +
                                       (value.predicate ? 16 : 0) + static_cast<int>(value.owner),
                                   value.bits, value.offset,
                                   static_cast<std::uint64_t>(value.index) << 16 |
                                       static_cast<std::uint64_t>(value.type) << 8 |
                                       static_cast<std::uint64_t>(value.special));
  const auto [it, fresh] =
      known_.emplace(key, static_cast<std::uint32_t>(program_.constants.size()));
  if (fresh) {
    value.place = program_.constant_bytes;
    program_.constant_bytes += value.wide ? 256 : 128;
    program_.constants.push_back(value);
  }
  return Slot::constant(program_.constants[it->second].place);
}

Slot Decoder::integer_constant(std::uint64_t bits, bool wide) {
  Constant value;
  value.bits = bits;
  value.wide = wide;
  return constant(value);
}

Slot Decoder::scratch(Type type) {
  register_types_.push_back(type);
  return Slot::reg(static_cast<std::uint32_t>(register_types_.size() - 1));
}

Slot Decoder::source(const Operand& operand, Type type) {
  const bool wide = size_of(type) == 8;
  if (operand.negated) fail("only predicates can be negated");
  switch (operand.kind) {
    case Operand::Kind::reg: {
      const Type have = register_type(operand);
      if (have == Type::pred || size_of(have) > 8)
        fail("the operand is no ." + std::string(name_of(type)));
      if ((size_of(have) == 8) != wide) fail("a register has another size than the type");
      return Slot::reg(operand.index);
    }
    case Operand::Kind::variable: {
      Constant value;
      value.source = Constant::Source::variable;
      value.owner = operand.owner;
      value.index = operand.index;
      value.bits = static_cast<std::uint64_t>(operand.offset);
      value.wide = wide;
      if (size_of(type) < 4) fail("an address needs 32 or 64 bits");
      return constant(value);
    }
    case Operand::Kind::function:
      if (!wide) fail("a function's address needs 64 bits");
      return integer_constant(function_address(operand.index), true);
    case Operand::Kind::integer:
    case Operand::Kind::float32:
    case Operand::Kind::float64:
      return integer_constant(literal(operand, type), wide);
    default:
      fail("the operand cannot be read here");
  }
}

Slot Decoder::destination(const Operand& operand, Type type) {
  if (operand.kind == Operand::Kind::sink) return scratch(type);
  const Type have = register_type(operand);
  if (have == Type::pred || size_of(have) > 8)
    fail("the result is no ." + std::string(name_of(type)));
  if ((size_of(have) == 8) != (size_of(type) == 8))
    fail("a register has another size than the type");
  return Slot::reg(operand.index);
}

Slot Decoder::predicate_source(const Operand& operand, std::uint64_t negate_bit) {
  if (operand.negated) op_.immediate |= negate_bit;
  if (operand.kind == Operand::Kind::integer) {
    Constant value;
    value.predicate = true;
    value.bits = operand.value != 0 ? ~0ULL : 0;
    return constant(value);
  }
  if (register_type(operand) != Type::pred) fail("a predicate is needed");
  return Slot::reg(operand.index);
}

Slot Decoder::predicate_destination(const Operand& operand) {
  if (operand.kind == Operand::Kind::sink) return {};
  if (register_type(operand) != Type::pred) fail("a predicate is needed");
  return Slot::reg(operand.index);
}

void Decoder::extra(const std::vector<Slot>& written, const std::vector<Slot>& read) {
  op_.extra = static_cast<std::uint32_t>(program_.extra.size());
  op_.extra_written = static_cast<std::uint16_t>(written.size());
  op_.extra_read = static_cast<std::uint16_t>(read.size());
  program_.extra.insert(program_.extra.end(), written.begin(), written.end());
  program_.extra.insert(program_.extra.end(), read.begin(), read.end());
}

Slot Decoder::address(const Operand& operand, std::int64_t& offset, bool& wide) {
  if (operand.kind != Operand::Kind::address) fail("an address [..] is needed");
  if (operand.elements.size() > 1) fail("unsupported address with coordinates");
  offset = operand.offset;
  if (operand.elements.empty()) {
    wide = true;
    return integer_constant(0, true);
  }
  const Operand& base = operand.elements[0];
  if (base.kind == Operand::Kind::variable) {
    wide = true;
    return source(base, Type::b64);
  }
  wide = is_wide(base);
  if (size_of(register_type(base)) < 4) fail("the address register is too narrow");
  return Slot::reg(base.index);
}

Rounding Decoder::rounding() {
  const std::string_view word = mods_.take_one({"rn", "rz", "rm", "rp", "rna"});
  if (word == "rz") return Rounding::zero;
  if (word == "rm") return Rounding::down;
  if (word == "rp") return Rounding::up;
  if (word == "rna") return Rounding::nearest_away;
  return Rounding::nearest;
}

void Decoder::use(const AluKey& key) {
  op_.kind = Kind::alu;
  op_.run = find_handler(key);
  if (op_.run == nullptr) fail("unsupported form");
}

std::uint64_t Decoder::slow_flags(SlowOperation operation, const AluKey& key) const {
  return static_cast<std::uint64_t>(operation) |
         static_cast<std::uint64_t>(key.rounding) << kSlowRoundingShift |
         (key.flush ? kSlowFlush : 0) | (key.saturate ? kSlowSaturate : 0);
}

}  // namespace ringfence::ptx
