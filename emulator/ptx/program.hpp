#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/ptx/alu/alu.hpp"
#include "emulator/ptx/memory.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/slot.hpp"

namespace ringfence::ptx {

/// Shared memory that a block has at most (CUDA Programming Guide, compute capability 9.0).
inline constexpr std::uint32_t kMostSharedBytes = 227 * 1024;

/// One kernel decoded for execution: op i is Function::instructions[i], so a program counter is an
/// instruction index.

enum class Kind : std::uint8_t {
  alu,           ///< run() does it
  special,       ///< d = special register `immediate`
  branch,        ///< to op `detail`
  branch_index,  ///< to targets[detail][a]
  exit,
  trap,       ///< detail: TrapKind
  memory,     ///< accesses[detail]
  fence,      ///< fences[detail]
  barrier,    ///< barriers[detail]
  warp_sync,  ///< bar.warp.sync a
  cluster_arrive,
  cluster_wait,
  exchange,  ///< exchanges[detail]: shfl, vote, match, redux, elect: waits for the lanes named
  active_mask,
  print,        ///< vprintf(a, b) -> d
  assert_fail,  ///< __assertfail of extra[0..4]
  sleep,        ///< nanosleep a
  to_space,     ///< cvta: detail = Space, immediate 1 = to generic
  map_address,  ///< mapa: d = a in block b of the cluster
  copy_async,   ///< copies[detail]
  copy_commit,
  copy_wait,    ///< immediate = groups that may stay open; detail 1: of bulk copies, 3: by .read,
                ///< 2: also what is not committed
  mbarrier,     ///< mbarriers[detail]
  matrix_load,  ///< ldmatrix / stmatrix: matrices[detail]
  matrix_multiply,  ///< mma.sync: matrices[detail]
  group_multiply,   ///< wgmma.mma_async: group_products[detail]
  group_fence,      ///< wgmma.fence
  group_commit,     ///< wgmma.commit_group
  group_wait,       ///< wgmma.wait_group: immediate = groups that may stay open
  alu_watched,      ///< run() does it, on registers of watches[watch_of[op]]
  launch_wait,      ///< griddepcontrol.wait
  launch_trigger,   ///< griddepcontrol.launch_dependents
  nothing,          ///< prefetch, pragma-like hints
};

enum class TrapKind : std::uint8_t { trap, recursion, no_target };

struct Op {
  Handler run = nullptr;
  Slot d, e;        ///< written
  Slot a, b, c, f;  ///< read
  Slot guard;
  bool writes_cf = false;  ///< slots c and f are written (unpacking into four parts)
  bool guard_negated = false;
  Kind kind = Kind::nothing;
  std::uint64_t immediate = 0;
  std::uint32_t detail = 0;
  std::uint32_t extra = 0;          ///< first of this op's slots in Program::extra
  std::uint16_t extra_written = 0;  ///< so many of them are written, then ...
  std::uint16_t extra_read = 0;     ///< ... so many are read
  std::uint32_t line = 0;
};

/// An access with the operands that the executor resolves; address = slot a of the op + offset.
struct MemoryOp {
  Access access;
  std::int64_t offset = 0;
  bool wide_address = true;          ///< slot a has 64-bit lanes
  bool sign_extend = false;          ///< a load of s8/s16/s32 into a wider register
  std::uint32_t lane_bytes = 4;      ///< of the data registers
  std::uint32_t register_bytes = 4;  ///< of the declared register: how far sign_extend reaches
};

struct BarrierOp {
  bool arrive_only = false;
  bool aligned = true;
  enum class Reduce : std::uint8_t { none, popc, and_, or_ } reduce = Reduce::none;
  bool has_count = false;  ///< slot b holds the number of threads
};

enum class ExchangeKind : std::uint8_t {
  shuffle_up,
  shuffle_down,
  shuffle_butterfly,
  shuffle_index,
  vote_all,
  vote_any,
  vote_uniform,
  vote_ballot,
  match_any,
  match_all,
  redux_add,
  redux_min,
  redux_max,
  redux_and,
  redux_or,
  redux_xor,
  elect
};
struct ExchangeOp {
  ExchangeKind kind = ExchangeKind::shuffle_butterfly;
  bool is_signed = false;
  bool wide = false;     ///< match on b64
  bool negated = false;  ///< vote on !p
  // redux of f32:
  bool of_floats = false;
  bool magnitudes = false;  ///< .abs
  bool keeps_nan = false;   ///< .NaN: one lane's makes it the result
};

/// Asynchronous copies: cp.async (global to shared), cp.async.bulk and cp.async.bulk.tensor. A
/// tensor copy has its map at slot b (or a, to global memory) and its coordinates, innermost first,
/// in the op's extra slots.
struct CopyOp {
  enum class Form : std::uint8_t {
    async,
    bulk_to_shared,
    bulk_to_global,
    bulk_to_cluster,
    tensor_to_shared,
    tensor_to_global,
    remote_store,  ///< st.async of extra[0..elements)
    remote_reduce  ///< red.async
  } form = Form::async;
  Access remote;         ///< st.async, red.async: type, elements, combine; of a bulk reduction too
  bool reduces = false;  ///< cp.reduce.async.bulk
  std::uint32_t lane_bytes = 4;
  std::uint8_t coordinates = 0;
  bool multicast = false;   ///< the extra slot behind the coordinates has the blocks' bits
  std::uint32_t bytes = 0;  ///< cp.async: fixed size; bulk: slot c
  std::int64_t destination_offset = 0;
  std::int64_t source_offset = 0;
  std::int64_t barrier_offset = 0;
  bool wide_destination = false;
  bool wide_source = true;
  bool has_source_size = false;  ///< cp.async: slot c = bytes read, the rest is zero
  bool wide_barrier = false;
};

struct MbarrierOp {
  enum class Form : std::uint8_t {
    init,
    inval,
    arrive,
    arrive_drop,
    expect_tx,
    arrive_expect_tx,
    complete_tx,
    test_wait,
    try_wait,
    pending_count,
    async_arrive
  } form = Form::init;
  std::int64_t offset = 0;
  bool wide_address = false;
  bool parity = false;
  bool has_count = false;
  bool no_increment = false;
  SyncOrder order{Order::release, Scope::cta};  ///< of an arrival or a wait
  bool has_scope = false;                       ///< it is written
  bool remote = false;                          ///< .shared::cluster is
};

struct MatrixOp {
  enum class Form : std::uint8_t { load, store, multiply } form = Form::load;
  unsigned count = 1;  ///< ldmatrix .x1 .x2 .x4
  bool transposed = false;
  std::int64_t offset = 0;
  bool wide_address = false;
  Type a = Type::f16;
  Type b = Type::f16;
  Type accumulate = Type::f32;
  Type result = Type::f32;
  unsigned k = 16;        ///< of m16n8kK
  bool saturate = false;  ///< .satfinite, of integers
};

/// wgmma.mma_async with accumulators of 32 bits: D[64, n] (+)= A[64, K] * B[K, n], where K elements
/// are 32 bytes. The extra slots are D's, then A's four where A lies in registers; slot a: A's
/// descriptor, slot b: B's, slot c: the predicate scale-d.
struct GroupProduct {
  Type type = Type::bf16;    ///< A's
  Type type_b = Type::bf16;  ///< of the same size
  Type result = Type::f32;   ///< s32 where A and B are integers
  bool saturate = false;     ///< .satfinite, of integers
  std::uint16_t n = 8;
  bool a_in_registers = false;
  bool negate_a = false;
  bool negate_b = false;
  bool transpose_a = false;  ///< M-major
  bool transpose_b = false;  ///< N-major
};

/// What an op does with registers that a matrix product of a warpgroup reads or writes, which are
/// not to be touched before its end. The numbers count those registers.
struct Watch {
  std::vector<std::uint16_t> read;
  std::vector<std::uint16_t> written;
  std::vector<std::uint16_t> operands;  ///< a product: its part of A in registers
  bool copies = false;  ///< mov: the destination is in the source's state, and nothing is touched
};

/// A lane-uniform value that is known when the launch starts, broadcast to 32 lanes.
struct Constant {
  enum class Source : std::uint8_t { bits, parameter, variable, special } source = Source::bits;
  std::uint64_t bits = 0;  ///< the value, or an addend to a variable's address
  bool wide = false;
  bool predicate = false;
  Type type = Type::b32;     ///< parameter: as loaded; bits = bytes of the register it goes to
  std::uint64_t offset = 0;  ///< parameter: byte in the parameter block
  Operand::Owner owner = Operand::Owner::module;
  std::uint32_t index = 0;  ///< variable
  Special special = Special::tid_x;
  std::uint32_t place = 0;  ///< byte in the constant bank
};

/// Where a variable lies in its space: bytes from the start of the block's shared memory, the
/// thread's local memory, or the module's globals.
struct Placement {
  Space space = Space::global;
  std::uint64_t offset = 0;
};

class Looks;

struct Program {
  const Module* module = nullptr;      ///< outlives the program, as ...
  const Function* kernel = nullptr;    ///< ... does the kernel as it is written
  const Function* function = nullptr;  ///< what runs: the same, but for ...
  /// ... the functions that it calls (calls.hpp) and registers of 128 bits (halves.hpp).
  std::shared_ptr<const Function> rewritten;
  std::vector<Op> ops;
  std::vector<Slot> extra;
  std::vector<MemoryOp> accesses;
  std::vector<Fence> fences;
  std::vector<BarrierOp> barriers;
  std::vector<ExchangeOp> exchanges;
  std::vector<CopyOp> copies;
  std::vector<MbarrierOp> mbarriers;
  std::vector<MatrixOp> matrices;
  std::vector<GroupProduct> group_products;
  std::vector<Watch> watches;           ///< the first is empty
  std::vector<std::uint32_t> watch_of;  ///< by op; empty where there are no watched registers
  std::vector<std::string> watched_names;
  std::vector<std::vector<std::uint32_t>> targets;  ///< of brx.idx
  std::vector<Constant> constants;
  std::uint32_t constant_bytes = 0;
  std::uint32_t register_bytes = 0;   ///< a warp's register file: 64-bit registers, then ...
  std::uint32_t first_word = 0;       ///< ... from this byte 32-bit ones, ...
  std::uint32_t first_predicate = 0;  ///< ... and from this one predicates
  std::uint32_t end_predicate = 0;
  std::vector<std::uint32_t> order;       ///< op -> its block's place in reverse post-order
  std::vector<std::uint8_t> block_start;  ///< op begins a basic block
  std::vector<std::uint64_t> parameter_offset;
  std::uint64_t parameter_bytes = 0;
  std::vector<Placement> module_placement;    ///< for Module::variables
  std::vector<Placement> function_placement;  ///< for Function::variables
  std::uint64_t static_shared = 0;            ///< dynamic shared memory starts here
  std::uint64_t dynamic_alignment = 1;
  std::uint64_t local_bytes = 0;
  std::uint64_t global_bytes = 0;     ///< of one rank's copy of the module's globals
  std::vector<std::uint8_t> in_loop;  ///< by op: a later branch, or a brx.idx, may come back to it
  std::vector<std::uint32_t> barrier_ops;  ///< those of `ops` that are barriers of a block
  std::shared_ptr<const Looks> looks;
  std::shared_ptr<const Looks> rounds;  ///< of a block; null: no loop comes back to a barrier
};

}  // namespace ringfence::ptx
