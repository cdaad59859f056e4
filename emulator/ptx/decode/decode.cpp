#include "emulator/ptx/decode.hpp"

#include <algorithm>

#include "emulator/ptx/calls.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/flow.hpp"
#include "emulator/ptx/halves.hpp"
#include "emulator/ptx/looks.hpp"
#include "emulator/ptx/registers.hpp"

namespace ringfence::ptx {
namespace {

std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
  return alignment == 0 ? offset : (offset + alignment - 1) / alignment * alignment;
}

// Gives every variable its place: shared ones from the start of the block's shared memory, local
// ones and call slots in the thread's local memory, globals in the module's copy.
void lay_out(const Module& module, const Function& function, Program& program) {
  const auto take = [](std::uint64_t& end, const Variable& variable) {
    end = aligned(end, variable.alignment);
    const std::uint64_t at = end;
    end += variable.bytes;
    return at;
  };
  for (const Variable& parameter : function.parameters) {
    program.parameter_offset.push_back(take(program.parameter_bytes, parameter));
  }
  const auto place = [&](const Variable& variable) {
    Placement placement{variable.space, 0};
    switch (variable.space) {
      case Space::shared:
        if (variable.unsized) {
          program.dynamic_alignment =
              std::max<std::uint64_t>(program.dynamic_alignment, variable.alignment);
        } else {
          placement.offset = take(program.static_shared, variable);
        }
        break;
      case Space::local:
      case Space::param:
        placement.space = Space::local;
        placement.offset = take(program.local_bytes, variable);
        break;
      default:
        placement.space = Space::global;
        placement.offset = take(program.global_bytes, variable);
        break;
    }
    return placement;
  };
  for (const Variable& v : module.variables) program.module_placement.push_back(place(v));
  for (const Variable& v : function.variables) program.function_placement.push_back(place(v));
  program.static_shared = aligned(program.static_shared, program.dynamic_alignment);
  for (std::size_t i = 0; i < module.variables.size(); ++i) {
    const Variable& variable = module.variables[i];
    if (variable.space == Space::shared && variable.unsized) {
      program.module_placement[i].offset = program.static_shared;
    }
  }
}

void finish(Program& program, const std::vector<Type>& types) {
  const Flow flow = analyse_flow(program);
  program.order.assign(program.ops.size() + 1, static_cast<std::uint32_t>(flow.blocks.size()));
  program.block_start.assign(program.ops.size() + 1, 1);
  for (std::uint32_t place = 0; place < flow.order.size(); ++place) {
    const Flow::Block& block = flow.blocks[flow.order[place]];
    for (std::uint32_t op = block.first; op <= block.last; ++op) {
      program.order[op] = place;
      program.block_start[op] = op == block.first ? 1 : 0;
    }
  }
  allocate_registers(program, flow, types);
  program.looks = std::make_shared<const Looks>(program);
  std::uint32_t last_barrier = 0;  // from 1
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.kind == Kind::barrier) {
      last_barrier = i + 1;
      program.barrier_ops.push_back(i);
    }
    if (last_barrier == 0 || op.kind != Kind::branch || op.detail >= last_barrier) continue;
    if (program.rounds == nullptr) program.rounds = std::make_shared<const Looks>(program, true);
  }
  program.in_loop.resize(program.ops.size());
  auto target = static_cast<std::uint32_t>(program.ops.size());  // the first of those from here on
  for (std::uint32_t i = target; i-- > 0;) {
    const Op& op = program.ops[i];
    if (op.kind == Kind::branch_index) target = 0;
    if (op.kind == Kind::branch) target = std::min(target, op.detail);
    program.in_loop[i] = target <= i ? 1 : 0;
  }
}

Program start(const Module& module, const Function& kernel) {
  if (!kernel.has_body) {
    throw Error(module.file_of(kernel.unit), kernel.line, "the function has no body", kernel.name);
  }
  Program program;
  program.module = &module;
  program.kernel = program.function = &kernel;
  std::shared_ptr<Function> rewritten;
  if (has_calls(kernel, module)) {
    rewritten = std::make_shared<Function>(with_functions(module, kernel));
  } else if (has_wide_registers(kernel)) {
    rewritten = std::make_shared<Function>(kernel);
  }
  if (rewritten != nullptr) {
    if (has_wide_registers(*rewritten)) split_wide_registers(*rewritten);
    program.rewritten = rewritten;
    program.function = rewritten.get();
  }
  program.ops.resize(program.function->instructions.size());
  lay_out(module, *program.function, program);
  return program;
}

}  // namespace

Program decode(const Module& module, const Function& kernel) {
  Program program = start(module, kernel);
  Decoder decoder(module, *program.function, program);
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) decoder.instruction(i);
  decoder.watch_products();
  finish(program, decoder.register_types());
  return program;
}

std::vector<Unsupported> unsupported_forms(const Module& module, const Function& kernel) {
  std::vector<Unsupported> out;
  // A function that is called twice is there twice.
  const auto add = [&](const Error& error) {
    const auto same = [&](const Unsupported& u) {
      return u.line == error.line() && u.file == error.file() && u.statement == error.statement();
    };
    if (std::none_of(out.begin(), out.end(), same)) {
      out.push_back({error.line(), error.reason(), error.statement(), error.file()});
    }
  };
  try {
    Program program = start(module, kernel);
    Decoder decoder(module, *program.function, program);
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
      try {
        decoder.instruction(i);
      } catch (const Error& error) {
        add(error);
      }
    }
  } catch (const Error& error) {
    add(error);
  }
  return out;
}

}  // namespace ringfence::ptx
