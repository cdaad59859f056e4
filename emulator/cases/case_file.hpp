#pragma once
// A case file (TOML): a PTX kernel and how to launch it, as plain data.
//
// Reading checks everything that needs no other file: keys (a missing or an extra one is an error),
// types, ranges, and that every memory that is named is declared. A case that was read is well
// formed; whether the kernel takes these arguments is for the program that runs it.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emulator/cases/formula.hpp"
#include "emulator/cases/suppress.hpp"
#include "emulator/machine/policy.hpp"
#include "emulator/ptx/execution.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/tensor_map.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cases {

// What is wrong, at "FILE:LINE:COLUMN", and what would be right; one line.
class CaseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class MemoryKind : std::uint8_t {
  symmetric,  // one replica a rank, which peers and multicast addresses reach
  local,      // one a rank, reached by that rank alone
};

// One kernel argument, or a field of a struct in a memory.
struct Argument {
  enum class Kind : std::uint8_t {
    memory,     // the address of the rank's own replica, or of another's
    multicast,  // the multicast address of a symmetric memory
    peers,      // the address of a device array of all ranks' replicas, by rank
    rank,       // as many bytes as the parameter has; 4 in a struct
    world,
    scalar,      // a number, little end first
    replicas,    // in a struct: the addresses of all ranks' replicas, by rank; `count` of 8 bytes
    distances,   // in a struct: these less the address of the own replica
    tensor_map,  // of `name`: `map` at its address
    structure,   // `fields`, each aligned to its size, `count` times over
  };
  Kind kind = Kind::scalar;
  std::string name;                   // memory, multicast, peers, replicas, distances, tensor_map
  std::uint64_t offset = 0;           // added to the address
  std::uint64_t offset_per_rank = 0;  // times the rank, added too
  std::uint32_t peer = 0;             // memory: rank r is given the replica of (r + peer) mod R
  std::optional<std::uint32_t> of_rank;  // memory: every rank is given the replica of this one
  bool by_multicast = false;             // tensor_map: of the multicast address
  std::vector<std::uint8_t> bytes;       // scalar: 1, 2, 4 or 8 of a number, or those of a struct
  std::string type;              // scalar whose `numbers` are in place of `bytes`: u8 to s64
  std::vector<Formula> numbers;  // one for all ranks, or one for each
  std::vector<std::vector<std::uint8_t>> by_rank;  // scalar: in place of `bytes`
  std::uint64_t count = 1;       // replicas: places in the array; those beyond R are zero
  std::vector<Argument> fields;  // structure
  ptx::TensorMap map;            // tensor_map: all but the address
};

// What a part of a memory holds at the start.
struct Content {
  std::uint64_t at = 0;           // bytes before it
  std::optional<Argument> value;  // a struct, or addresses; else elements:
  std::string dtype;
  std::vector<Formula> numbers;  // of integer dtypes
  std::vector<double> reals;     // of others
  bool repeats = false;          // the one element, up to the end of the memory
};

// Initial content. `poison` is not initialised: reading it is a finding.
struct Initial {
  enum class Kind : std::uint8_t {
    zero,
    poison,
    fill,
    contents,
    integers,
    normal,
    adversarial,
    file
  };
  Kind kind = Kind::zero;
  std::string dtype;          // integers, normal, adversarial: as verify::parse_dtype takes it
  bool same = false;          // generated: the same on all ranks
  bool once = false;          // generated, file: before the first call alone
  std::uint64_t columns = 0;  // adversarial: elements of a row; 0: what [check] says, else 64
  std::string file;           // relative to the case file's folder
  std::string tensor;         // "{rank}" and "{call}" in it stand for the numbers
  std::string unset;  // file: a tensor of what is not initialised, u64 [first byte, end) in turn
  std::uint8_t fill = 0;          // of every byte
  std::vector<Content> contents;  // zero elsewhere
};

struct Memory {
  std::string name;
  MemoryKind kind = MemoryKind::symmetric;
  std::uint64_t bytes = 0;
  std::uint64_t distance = 0;            // from each rank's replica to the next one's; 0: any
  bool everybody = false;                // every rank reaches it, whatever CaseFile::reach says
  std::vector<std::uint64_t> addresses;  // of the replicas, by rank, 0: any; empty: any
  std::string variables;                 // of this PTX file's module: the memory is where they lie
  Initial initial;
  std::uint32_t line = 0;
};

using Dim3 = std::array<std::uint32_t, 3>;

struct Launch {
  std::string ptx;  // relative to the case file's folder
  std::string kernel;
  std::vector<std::string> ptx_by_rank, kernel_by_rank;  // in place of these, if not empty
  std::vector<std::string> link;  // modules that are linked with it, as nvcc -rdc=true does
  std::vector<Dim3> grid;         // one for all ranks, or one for each; a 0 in it: no launch there
  Dim3 block{1, 1, 1};
  std::vector<Dim3> block_by_rank;  // in place of that, if not empty
  Dim3 cluster{0, 0, 0};            // zeros: what the kernel requires, else 1
  std::uint32_t shared_bytes = 0;
  std::uint32_t stream = 0;
  bool cooperative = false;  // all blocks are resident
  bool dependent = false;    // begins once the one before on its stream has triggered it
  std::vector<Argument> args;
  std::uint32_t line = 0;
  const Dim3& grid_of(std::uint32_t rank) const { return grid.size() == 1 ? grid[0] : grid[rank]; }
  bool on(std::uint32_t rank) const {
    const Dim3& g = grid_of(rank);
    return g[0] != 0 && g[1] != 0 && g[2] != 0;
  }
  const Dim3& block_of(std::uint32_t rank) const {
    return block_by_rank.empty() ? block : block_by_rank[rank];
  }
  const std::string& ptx_of(std::uint32_t rank) const {
    return ptx_by_rank.empty() ? ptx : ptx_by_rank[rank];
  }
  const std::string& kernel_of(std::uint32_t rank) const {
    return kernel_by_rank.empty() ? kernel : kernel_by_rank[rank];
  }
};

// What the host puts on a stream between launches. Each is a task of the stream, so that the end of
// what precedes it there happens before it, and it before what follows (PTX ISA 8.9.4).
struct HostStep {
  enum class Kind : std::uint8_t {
    memset,
    copy,
    write,      // a value, behind a fence at sys scope of the stream's earlier tasks
    wait,       // until a value is there
    record,     // an event
    wait_event  // until the event is recorded in this call
  };
  Kind kind = Kind::memset;
  Argument from, to;  // copy; where memset, write and wait are: `to`
  std::uint64_t bytes = 0;
  std::uint8_t fill = 0;  // memset: of every byte
  std::string type;       // write, wait: u32 or u64, of `value`
  Formula value;
  bool fence = true;   // write
  bool flush = false;  // wait: what the writer wrote before is there too
  machine::Compare compare = machine::Compare::ge;  // wait: of what is there with the value
  std::string event;
  std::uint32_t peer = 0;                // wait_event: recorded so many ranks on
  std::optional<std::uint32_t> of_rank;  // or on this one
  std::vector<std::uint32_t> ranks;      // that do it; empty: all
  std::uint32_t stream = 0;
  std::size_t before = 0;  // launches of the file that precede it
  std::uint32_t line = 0;
  bool on(std::uint32_t rank) const;
};

// What the operator's reference needs to judge the memories.
struct Reference {
  std::string protocol;   // tokenweave | pypto
  std::string tensor;     // holds the partial sums at first, and `out` at last unless that is named
  std::string x, weight;  // instead: what the kernel itself multiplies, each rank's columns
  std::uint64_t inner = 0;  // K, over all ranks; with x and weight
  std::string
      residual;     // [tokens, hidden] on every rank, or each rank's own rows; residual_out too
  std::string out;  // as `tensor` unless named
  std::string residual_out;  // as `residual` unless named
  std::string gamma;
  std::string beta;  // empty: none
  std::uint64_t tokens = 0, hidden = 0;
  std::string dtype = "bf16";  // bf16, fp16 or fp32
  double eps = 1e-6;

  std::uint64_t element_bytes() const { return dtype == "fp32" ? 4 : 2; }
};

// What a memory should hold after a call, on each rank: an expression of the inputs
// (verify/expression.hpp), or a tensor of a safetensors file.
struct ExpectedValue {
  std::string memory;
  std::string value;                 // the expression; empty: a file's tensor
  std::string file, tensor;          // "{rank}" and "{call}" in `tensor` stand for the numbers
  std::uint64_t columns = 0;         // elements of a row of the inputs; 0: each memory is one row
  std::string dtype;                 // of the memory; empty: that of the first input that is named
  std::uint64_t offset = 0;          // bytes of the memory before the first element
  std::vector<std::string> round;    // expressions of [check.let] that are rounded to `dtype`
  std::string accumulate;            // dtype in which sums over ranks are added; empty: f32
  std::vector<std::uint32_t> ranks;  // on which it is judged; empty: on all
  std::vector<std::uint32_t> calls;  // after which; empty: after each
  std::optional<double> rtol, atol;  // in place of exact values and derived bounds
  std::uint32_t line = 0;
};

struct Check {
  bool names_modes = false;
  std::vector<machine::Boundary>
      modes;                       // that the case claims, the first one for a run; stream if none
  std::vector<std::string> equal;  // replicas agree at the end
  std::vector<std::string> restored;  // as at the beginning
  std::optional<Reference> reference;
  std::vector<ExpectedValue> expected;     // in the file's order
  std::map<std::string, std::string> let;  // named expressions
};

struct CaseFile {
  std::string path;
  std::uint32_t ranks = 2;
  std::uint32_t multiprocessors = ptx::kMultiprocessors;  // of each GPU
  std::uint32_t calls = 1;
  // Whether plain stores of one value to a word of their block's shared memory race where nothing
  // orders them. By the letter they do (PTX ISA 8.7.1). Whichever of them lands, the word holds
  // that value, and compilers let all threads that have a value store it: so that is told with the
  // verdict, and a read that is not ordered behind each of them is a race all the same.
  bool same_value_races = false;
  std::uint64_t budget = std::uint64_t{1} << 26;  // warp instructions of a launch on one rank
  // By rank: the ranks whose memories its kernels reach; empty: all.
  std::vector<std::vector<std::uint32_t>> reach;
  std::vector<Memory> memories;  // in the file's order
  std::vector<Launch> launches;
  std::vector<HostStep> host;  // in the file's order
  Check check;
  std::vector<Suppression> ignore;
  // Files that are here and need not be on disk, the case file itself among them: by their paths,
  // as `beside` gives them.
  std::map<std::string, std::string> contents;

  const Memory* find(std::string_view name) const;
  // `relative`, seen from the case file's folder.
  std::string beside(const std::string& relative) const;
  // The file at such a path: read, or from `contents`. They throw ptx::Error and
  // verify::InputError.
  std::string ptx_text(const std::string& path, bool relocatable = false) const;
  // A launch's PTX and what is linked with it, by path: beside the case file, in one order whoever
  // names them.
  std::vector<std::string> modules_of(const Launch& launch, std::uint32_t rank) const;
  // These as one module.
  ptx::Module module(const std::vector<std::string>& paths) const;
  verify::Safetensors tensors(const std::string& path) const;
};

inline constexpr std::uint32_t kMaxRanks = 64;
inline constexpr std::uint64_t kMaxMemory = std::uint64_t{1} << 40;  // of distances and offsets
inline constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 36;   // of one replica

// `path` is named in errors. Throws CaseError.
CaseFile parse_case(std::string_view text, const std::string& path);
CaseFile read_case(const std::string& path);

// 16 hex digits of the content of the case file and of every file that it names. Throws CaseError
// where one cannot be read.
std::string digest(const CaseFile& file);

}  // namespace ringfence::cases
