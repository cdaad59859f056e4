#pragma once
// A case in code: compiled kernels, their memories on R ranks, how they are launched, and what has
// to come out. It says what a case file says (docs/cases.md), which `text` writes; beyond that,
// expected values may be functions and tensors.

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringfence/result.hpp"
#include "ringfence/tensor.hpp"

namespace ringfence {

// What a memory holds at the start. What is generated or given by rank is written anew before each
// call, by a launch of its own, unless `once`.
class Content {
 public:
  static Content zero();
  static Content poison();                  // not initialised: to read it is a finding
  static Content fill(std::uint8_t value);  // of every byte; written once
  // Generated: whole numbers whose sums are exact; or normally distributed ones.
  static Content integers(const std::string& dtype);
  static Content normal(const std::string& dtype);
  // These, on every rank.
  static Content values(Tensor all);
  // Those of each rank.
  static Content by_rank(std::function<Tensor(std::uint32_t rank)> of);
  Content once() const;

 private:
  friend class Case;
  friend struct CaseWriter;
  enum class Kind : std::uint8_t {
    zero,
    poison,
    fill,
    integers,
    normal,
    tensors
  } kind_ = Kind::zero;
  std::string dtype_;
  std::uint8_t fill_ = 0;
  std::function<Tensor(std::uint32_t)> of_;
  bool once_ = false;
};

// One kernel argument.
class Argument {
 public:
  // The address of the rank's own replica, or of rank (own + peer) mod R.
  static Argument memory(const std::string& name, std::uint64_t offset = 0, std::uint32_t peer = 0);
  // The address of this rank's replica, on all ranks.
  static Argument memory_of(const std::string& name, std::uint32_t rank, std::uint64_t offset = 0);
  static Argument multicast(const std::string& name, std::uint64_t offset = 0);  // that address
  static Argument peers(const std::string& name);  // a device array of all replicas' addresses
  static Argument rank();
  static Argument world();
  template <class T>
  static Argument scalar(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return number(dtype_of<T>(), text_of(value));
    } else if constexpr (std::is_same_v<T, bool> || std::is_signed_v<T> || sizeof(T) < 8) {
      return number(dtype_of<T>(), std::to_string(value));
    } else {
      return whole(value);
    }
  }
  // A table in braces as a case file has it: "{struct = [...]}".
  static Argument raw(std::string toml);

 private:
  friend struct CaseWriter;
  static Argument number(const char* dtype, const std::string& value);
  static Argument whole(std::uint64_t value);  // TOML has no such numbers above 2^63
  static std::string text_of(float value);     // that reads back as the same
  static std::string text_of(double value);
  std::string toml_;
};

struct Size3 {
  std::uint32_t x{1}, y{1}, z{1};
};

struct Launch {
  std::string ptx{};     // a file: .ptx, .cu (compiled by nvcc), or a program with PTX inside
  std::string kernel{};  // a part of its mangled name that is unique
  Size3 grid{}, block{};
  std::vector<Argument> arguments{};
  std::uint32_t shared_bytes{0};
  std::uint32_t stream{0};  // launches of one stream follow one another
  bool cooperative{false};  // all blocks are resident; refused where they do not fit
  std::string text{};       // PTX text, in place of the file; `ptx` is then its name in findings
  Size3 cluster{0, 0, 0};   // blocks of a cluster; zeros: as the kernel has it, else 1
  std::vector<std::string> link{};  // modules with functions and variables that it declares .extern
  // It may start once the launch before on its stream has triggered it (programmatic dependent
  // launch).
  bool dependent{false};
};

// What the memories held before a call: those with generated content, or content by rank.
class Inputs {
 public:
  std::uint32_t ranks() const;
  std::uint32_t call() const;
  Tensor tensor(const std::string& memory, std::uint32_t rank) const;
  // As numbers of type T, which has to be the memory's dtype. Throws Error.
  template <class T>
  std::vector<T> values(const std::string& memory, std::uint32_t rank) const {
    const Tensor t = tensor(memory, rank);
    check_dtype(memory, t, dtype_of<T>());
    std::vector<T> out(t.bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), t.bytes.data(), out.size() * sizeof(T));
    return out;
  }

  struct Source;
  explicit Inputs(const Source& source) : source_(source) {}

 private:
  static void check_dtype(const std::string& memory, const Tensor& tensor, const char* wanted);
  const Source& source_;
};

// What a memory has to hold after a call, on one rank.
using ExpectedFunction = std::function<Tensor(const Inputs& inputs, std::uint32_t rank)>;

struct Tolerance {
  double relative{0}, absolute{0};
};

class Case {
 public:
  // `name` names it in messages and traces; its files are looked for from the current folder.
  explicit Case(std::uint32_t ranks, std::string name = "case");

  Case& calls(std::uint32_t number);  // the launches run so many times, with new payloads
  Case& payload_seed(std::uint64_t seed);
  // Where terms of a sum are added in an order of the hardware's own (multimem, atomics): in which
  // one (docs/values.md).
  Case& summation(const std::string& policy);
  // A replica on each rank, which peers and the multicast address reach.
  Case& symmetric(const std::string& memory, std::uint64_t bytes, Content content = {});
  // One on each rank, reached by that rank alone.
  Case& local(const std::string& memory, std::uint64_t bytes, Content content = {});
  Case& launch(Launch launch);

  // -- what is judged ----------------------------------------------------------------------------
  Case& modes(std::vector<Boundary> meant_for);  // default: stream
  Case& equal(const std::string& memory);        // replicas agree after each call
  Case& restored(const std::string& memory);     // it ends as it began
  // Bit for bit, where no tolerance is given; from the memory's first byte on, and what lies behind
  // the end of a shorter value is not judged. The function is called once for each rank and call,
  // when the case becomes a Subject; what it throws comes out as an Error.
  Case& expect(const std::string& memory, ExpectedFunction value, Tolerance tolerance = {});
  Case& expect(const std::string& memory, Tensor value, Tolerance tolerance = {});
  // An expression of the inputs, with derived bounds (docs/values.md): "sum(data)".
  Case& expect(const std::string& memory, const std::string& expression);
  // Lines of a case file for what has no function here: "[[host]]", "[[ignore]]", ...; lines before
  // the first table are keys of the whole file: "multiprocessors = 4". Host steps and launches keep
  // the order in which they were added.
  Case& raw(const std::string& toml);

  // The case file that says the same; and it with all files that it names, in a folder, which is
  // made: what `ringfence fuzz --case FOLDER/NAME.toml` runs.
  std::string text() const;
  void save(const std::string& folder) const;

  struct Data;

 private:
  friend class Subject;
  friend struct CaseWriter;
  std::shared_ptr<Data> data_;  // shared by copies until one of them changes
  Data& change();
};

}  // namespace ringfence
