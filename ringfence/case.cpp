// Cases in code become case files: what a file may say is decided in one place (emulator/cases).
#include "ringfence/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "emulator/cases/files.hpp"
#include "emulator/cases/payload.hpp"
#include "emulator/ptx/source.hpp"
#include "emulator/trace/trace.hpp"
#include "ringfence/held.hpp"
#include "verify/dtype.hpp"
#include "verify/safetensors.hpp"

namespace ringfence {

struct Case::Data {
  struct MemoryOf {
    std::string name, kind;
    std::uint64_t bytes;
    Content content;
  };
  struct ExpectedOf {
    std::string memory, expression;
    ExpectedFunction function;
    Tolerance tolerance;
  };

  std::string name;
  std::uint32_t ranks;
  std::uint32_t calls = 1;
  std::uint64_t payload_seed = 1;
  std::string summation = trace::CaseConfig{}.summation;
  std::vector<MemoryOf> memories;
  std::vector<Launch> launches;
  std::vector<Boundary> modes;
  std::vector<std::string> equal, restored;
  std::vector<ExpectedOf> expected;
  struct Raw {
    std::size_t before;  // launches that were there
    std::string toml;
  };
  std::vector<Raw> raw;
};

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string list(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + quoted(n);
  return "[" + out + "]";
}

// Lines of a file as its keys, and as its tables, which begin at the first line with a '['.
std::pair<std::string, std::string> keys_and_tables(const std::string& toml) {
  for (std::size_t at = 0; at < toml.size();) {
    const std::size_t text = toml.find_first_not_of(" \t", at);
    if (text != std::string::npos && toml[text] == '[')
      return {toml.substr(0, at), toml.substr(at)};
    const std::size_t end = toml.find('\n', at);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return {toml, ""};
}

// What a function of the caller's throws is the caller's to mend.
template <class F>
Tensor given_by(const std::string& what, F&& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw analysis::InputError(fmt::format("{}: its function threw: {}", what, e.what()));
  }
}

std::string list(const Size3& s) { return fmt::format("[{}, {}, {}]", s.x, s.y, s.z); }

// As case files and dtype_of have it: f32, where reports say fp32.
std::string short_name(verify::Dtype dtype) {
  std::string name = verify::dtype_name(dtype);
  if (name.starts_with("fp")) name.erase(1, 1);
  return name;
}

verify::Tensor to_verify(const Tensor& t) {
  verify::Tensor out;
  out.dtype = verify::parse_dtype(t.dtype);
  const std::size_t element = verify::dtype_bytes(out.dtype);
  if (t.bytes.size() % element != 0) {
    throw analysis::InputError(fmt::format("a tensor of {} has {} bytes: expected a multiple of {}",
                                           t.dtype, t.bytes.size(), element));
  }
  out.shape = {static_cast<std::int64_t>(t.bytes.size() / element)};
  out.bytes = t.bytes;
  return out;
}

}  // namespace

struct Inputs::Source {
  const cases::CaseFile& file;
  const cases::Payload& payload;
  std::uint32_t call;
};

std::uint32_t Inputs::ranks() const { return source_.file.ranks; }
std::uint32_t Inputs::call() const { return source_.call; }

Tensor Inputs::tensor(const std::string& memory, std::uint32_t rank) const {
  const cases::Memory* const m = source_.file.find(memory);
  if (m == nullptr || rank >= ranks()) {
    throw Error(Error::Kind::input,
                fmt::format("inputs: there is no memory '{}' of rank {}", memory, rank));
  }
  const auto index = static_cast<std::size_t>(m - source_.file.memories.data());
  const auto bytes = source_.payload.content(source_.call, rank, index);
  if (bytes.empty()) {
    throw Error(Error::Kind::input,
                fmt::format("inputs: memory '{}' has no generated content and none by rank; "
                            "expected Content::integers, normal, values or by_rank",
                            memory));
  }
  return {short_name(source_.payload.dtype(index)),
          std::vector<std::byte>(
              bytes.begin(),
              bytes.begin() + static_cast<std::ptrdiff_t>(source_.payload.filled(index)))};
}

void Inputs::check_dtype(const std::string& memory, const Tensor& tensor, const char* wanted) {
  if (tensor.dtype == wanted) return;
  throw Error(Error::Kind::input,
              fmt::format("inputs: memory '{}' holds {}, not {}", memory, tensor.dtype, wanted));
}

// The text of a case, and the files that it names and that are not on disk.
struct CaseWriter {
  const Case::Data& data;
  std::string text{};
  std::map<std::string, std::string> files{};  // by their names in the text

  explicit CaseWriter(const Case::Data& d) : data(d) { write(); }

  static const Case::Data& data_of(const Case& c) { return *c.data_; }
  std::string file_name() const { return data.name + ".toml"; }
  std::string tensors_name(const std::string& memory) const {
    return data.name + "." + memory + ".safetensors";
  }
  std::string expected_name() const { return data.name + ".expected.safetensors"; }

  // What functions expect, from the payload of a case that is read already.
  void evaluate(const cases::CaseFile& file) {
    const bool any = std::any_of(data.expected.begin(), data.expected.end(),
                                 [](const auto& e) { return e.function != nullptr; });
    if (!any) return;
    const cases::Payload payload(file, data.calls, data.payload_seed,
                                 verify::parse_summation(data.summation));
    verify::Safetensors tensors;
    for (const Case::Data::ExpectedOf& e : data.expected) {
      if (!e.function) continue;
      for (std::uint32_t call = 0; call < data.calls; ++call) {
        for (std::uint32_t rank = 0; rank < data.ranks; ++rank) {
          const Inputs::Source source{file, payload, call};
          const std::string what =
              fmt::format("expected '{}' of rank {}, call {}", e.memory, rank, call);
          tensors.add(fmt::format("{}.{}.{}", e.memory, rank, call),
                      to_verify(given_by(what, [&] { return e.function(Inputs(source), rank); })));
        }
      }
      add(fmt::format("\n[check.expected.{}]\nfile = {}\ntensor = {}\n", quoted(e.memory),
                      quoted(expected_name()), quoted(e.memory + ".{rank}.{call}")));
      if (e.tolerance.relative > 0) add(fmt::format("rtol = {:e}\n", e.tolerance.relative));
      if (e.tolerance.absolute > 0) add(fmt::format("atol = {:e}\n", e.tolerance.absolute));
    }
    files[expected_name()] = verify::safetensors_bytes(expected_name(), tensors);
  }

  cases::CaseFile parse(const std::string& folder) const {
    const std::string path = folder.empty() ? file_name() : folder + "/" + file_name();
    cases::CaseFile file = cases::parse_case(text, path);
    file.contents[path] = text;
    for (const auto& [name, bytes] : files) file.contents[file.beside(name)] = bytes;
    return file;
  }

 private:
  void add(const std::string& more) { text += more; }

  void write() {
    add(fmt::format("version = 1\nranks = {}\ncalls = {}\n", data.ranks, data.calls));
    for (const Case::Data::Raw& r : data.raw) add(keys_and_tables(r.toml).first + "\n");
    for (const Case::Data::MemoryOf& m : data.memories) {
      add(fmt::format("\n[memory.{}]\nkind = \"{}\"\nbytes = {}\ninit = {}\n", quoted(m.name),
                      m.kind, m.bytes, init(m)));
    }
    // What is raw may be steps of the host among the launches, or tables of any kind.
    auto raw = data.raw.begin();
    for (std::size_t i = 0; i <= data.launches.size(); ++i) {
      for (; raw != data.raw.end() && raw->before == i; ++raw) {
        add("\n" + keys_and_tables(raw->toml).second + "\n");
      }
      if (i < data.launches.size()) write(data.launches[i]);
    }
    add("\n[check]\n");
    if (!data.modes.empty()) {
      std::vector<std::string> modes;
      for (const Boundary mode : data.modes) modes.emplace_back(name(mode));
      add("modes = " + list(modes) + "\n");
    }
    if (!data.equal.empty()) add("equal = " + list(data.equal) + "\n");
    if (!data.restored.empty()) add("restored = " + list(data.restored) + "\n");
    std::set<std::string> judged;
    for (const Case::Data::ExpectedOf& e : data.expected) {
      if (!judged.insert(e.memory).second) {
        throw analysis::InputError(fmt::format("expected '{}': given twice", e.memory));
      }
      if (e.function) continue;
      if (e.expression.empty()) {
        throw analysis::InputError(
            fmt::format("expected '{}': expected a function, a tensor or an expression", e.memory));
      }
      add(fmt::format("\n[check.expected.{}]\nvalue = {}\n", quoted(e.memory),
                      quoted(e.expression)));
    }
  }

  void write(const Launch& l) {
    add(fmt::format("\n[[launch]]\nptx = {}\nkernel = {}\ngrid = {}\nblock = {}\n", quoted(l.ptx),
                    quoted(l.kernel), list(l.grid), list(l.block)));
    if (l.shared_bytes > 0) add(fmt::format("shared_bytes = {}\n", l.shared_bytes));
    if (l.stream > 0) add(fmt::format("stream = {}\n", l.stream));
    if (l.cooperative) add("cooperative = true\n");
    if (l.cluster.x > 0) add(fmt::format("cluster = {}\n", list(l.cluster)));
    if (!l.link.empty()) add("link = " + list(l.link) + "\n");
    if (l.dependent) add("dependent = true\n");
    std::string args;
    for (const Argument& a : l.arguments) args += (args.empty() ? "" : ", ") + a.toml_;
    add("args = [" + args + "]\n");
    if (!l.text.empty()) files[l.ptx] = l.text;
  }

  std::string init(const Case::Data::MemoryOf& m) {
    const Content& c = m.content;
    const std::string once = c.once_ ? ", once = true" : "";
    switch (c.kind_) {
      case Content::Kind::zero:
        return "\"zero\"";
      case Content::Kind::poison:
        return "\"poison\"";
      case Content::Kind::fill:
        return fmt::format("{{ fill = {} }}", c.fill_);
      case Content::Kind::integers:
        return fmt::format("{{ {} = \"integers\"{} }}", c.dtype_, once);
      case Content::Kind::normal:
        return fmt::format("{{ {} = \"normal\"{} }}", c.dtype_, once);
      case Content::Kind::tensors:
        break;
    }
    verify::Safetensors tensors;
    for (std::uint32_t r = 0; r < data.ranks; ++r) {
      const std::string what = fmt::format("memory '{}' of rank {}", m.name, r);
      if (!c.of_) throw analysis::InputError(what + ": expected a function");
      tensors.add(std::to_string(r), to_verify(given_by(what, [&] { return c.of_(r); })));
    }
    const std::string file = tensors_name(m.name);
    files[file] = verify::safetensors_bytes(file, tensors);
    return fmt::format("{{ file = {}, tensor = \"{{rank}}\"{} }}", quoted(file), once);
  }
};

Tensor detail::from_verify(const verify::Tensor& tensor) {
  return {short_name(tensor.dtype), {tensor.bytes.begin(), tensor.bytes.end()}};
}

analysis::SubjectPtr make_case_subject(const Case& of) {
  CaseWriter writer(CaseWriter::data_of(of));
  writer.evaluate(writer.parse(""));
  cases::CaseFile file = writer.parse("");
  trace::CaseConfig config = analysis::config_of(file);
  config.payload_seed = writer.data.payload_seed;
  config.summation = writer.data.summation;
  const auto subject = analysis::make_case_subject(std::move(file), config);
  subject->make_program();  // says what its kernels cannot be given
  return subject;
}

Content Content::zero() { return {}; }
Content Content::poison() {
  Content c;
  c.kind_ = Kind::poison;
  return c;
}
Content Content::fill(std::uint8_t value) {
  Content c;
  c.kind_ = Kind::fill;
  c.fill_ = value;
  return c;
}
Content Content::integers(const std::string& dtype) {
  Content c;
  c.kind_ = Kind::integers;
  c.dtype_ = dtype;
  return c;
}
Content Content::normal(const std::string& dtype) {
  Content c;
  c.kind_ = Kind::normal;
  c.dtype_ = dtype;
  return c;
}
Content Content::values(Tensor all) {
  return by_rank([all = std::move(all)](std::uint32_t) { return all; });
}
Content Content::by_rank(std::function<Tensor(std::uint32_t)> of) {
  Content c;
  c.kind_ = Kind::tensors;
  c.of_ = std::move(of);
  return c;
}
Content Content::once() const {
  Content c = *this;
  c.once_ = true;
  return c;
}

Argument Argument::raw(std::string toml) {
  Argument a;
  a.toml_ = std::move(toml);
  return a;
}
Argument Argument::memory(const std::string& name, std::uint64_t offset, std::uint32_t peer) {
  std::string text = "{memory = " + quoted(name);
  if (offset > 0) text += fmt::format(", offset = {}", offset);
  if (peer > 0) text += fmt::format(", peer = {}", peer);
  return raw(text + "}");
}
Argument Argument::memory_of(const std::string& name, std::uint32_t rank, std::uint64_t offset) {
  std::string text = fmt::format("{{memory = {}, rank = {}", quoted(name), rank);
  if (offset > 0) text += fmt::format(", offset = {}", offset);
  return raw(text + "}");
}
Argument Argument::multicast(const std::string& name, std::uint64_t offset) {
  std::string text = "{multicast = " + quoted(name);
  if (offset > 0) text += fmt::format(", offset = {}", offset);
  return raw(text + "}");
}
Argument Argument::peers(const std::string& name) { return raw("{peers = " + quoted(name) + "}"); }
Argument Argument::rank() { return raw("\"rank\""); }
Argument Argument::world() { return raw("\"world\""); }
Argument Argument::number(const char* dtype, const std::string& value) {
  return raw(fmt::format("{{{} = {}}}", dtype, value));
}

Argument Argument::whole(std::uint64_t value) {
  if (value >> 63 == 0) return number("u64", std::to_string(value));
  std::string bytes;
  for (int b = 0; b < 8; ++b) {
    bytes += fmt::format("{}{}", b > 0 ? ", " : "", value >> (8 * b) & 0xff);
  }
  return raw("{bytes = [" + bytes + "]}");
}
std::string Argument::text_of(float value) { return fmt::format("{}", value); }
std::string Argument::text_of(double value) { return fmt::format("{}", value); }

Case::Case(std::uint32_t ranks, std::string name) {
  Data data;
  data.name = std::move(name);
  data.ranks = ranks;
  data_ = std::make_shared<Data>(std::move(data));
}

Case::Data& Case::change() {
  if (data_.use_count() != 1) data_ = std::make_shared<Data>(*data_);
  return *data_;
}

Case& Case::calls(std::uint32_t number) {
  change().calls = number;
  return *this;
}
Case& Case::payload_seed(std::uint64_t seed) {
  change().payload_seed = seed;
  return *this;
}
Case& Case::summation(const std::string& policy) {
  change().summation = policy;
  return *this;
}
Case& Case::symmetric(const std::string& memory, std::uint64_t bytes, Content content) {
  change().memories.push_back({memory, "symmetric", bytes, std::move(content)});
  return *this;
}
Case& Case::local(const std::string& memory, std::uint64_t bytes, Content content) {
  change().memories.push_back({memory, "local", bytes, std::move(content)});
  return *this;
}
Case& Case::launch(Launch launch) {
  if (!launch.text.empty() && launch.ptx.empty()) launch.ptx = data_->name + ".ptx";
  change().launches.push_back(std::move(launch));
  return *this;
}
Case& Case::modes(std::vector<Boundary> meant_for) {
  change().modes = std::move(meant_for);
  return *this;
}
Case& Case::equal(const std::string& memory) {
  change().equal.push_back(memory);
  return *this;
}
Case& Case::restored(const std::string& memory) {
  change().restored.push_back(memory);
  return *this;
}
Case& Case::expect(const std::string& memory, ExpectedFunction value, Tolerance tolerance) {
  change().expected.push_back({memory, {}, std::move(value), tolerance});
  return *this;
}
Case& Case::expect(const std::string& memory, Tensor value, Tolerance tolerance) {
  return expect(
      memory, [value = std::move(value)](const Inputs&, std::uint32_t) { return value; },
      tolerance);
}
Case& Case::expect(const std::string& memory, const std::string& expression) {
  change().expected.push_back({memory, expression, {}, {}});
  return *this;
}
Case& Case::raw(const std::string& toml) {
  Data& data = change();
  data.raw.push_back({data.launches.size(), toml});
  return *this;
}

std::string Case::text() const {
  return detail::as_error([&] {
    CaseWriter writer(*data_);
    writer.evaluate(writer.parse(""));
    return writer.text;
  });
}

void Case::save(const std::string& folder) const {
  detail::as_error([&] {
    CaseWriter writer(*data_);
    writer.evaluate(writer.parse(""));
    const cases::CaseFile file = writer.parse("");
    const std::filesystem::path to(folder);
    std::error_code error;
    std::filesystem::create_directories(to, error);
    if (error) throw analysis::InputError(folder + ": " + error.message());
    trace::write_text_file((to / writer.file_name()).string(), writer.text);
    for (const auto& [name, bytes] : writer.files) {
      trace::write_text_file((to / name).string(), bytes);
    }
    // Those on disk go along, under the names that the text has.
    for (const std::string& name : cases::files_of(file)) {
      if (writer.files.contains(name) || std::filesystem::path(name).is_absolute()) continue;
      const std::filesystem::path target = to / name;
      std::filesystem::create_directories(target.parent_path(), error);
      std::filesystem::copy_file(name, target, std::filesystem::copy_options::overwrite_existing,
                                 error);
      if (error) throw analysis::InputError(name + ": " + error.message());
    }
  });
}

}  // namespace ringfence
