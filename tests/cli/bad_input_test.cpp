// Bad usage and bad input: exit status 2, one line on standard error that says what is wrong and
// what would be right, nothing on standard output, no file, no process.
#include <doctest/doctest.h>

#include <fstream>

#include "emulator/ranks/segment.hpp"
#include "tests/cli/command.hpp"
#include "verify/inputs.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::cli {
namespace {

void refused(const Folder& folder, const std::string& arguments,
             const std::vector<std::string>& said) {
  CAPTURE(arguments);
  const auto before = folder.files();
  const Result r = ringfence(folder, arguments);
  CHECK(r.status == 2);
  CHECK(lines(r.err) == 1);
  CHECK(r.err.rfind("ringfence: ", 0) == 0);
  for (const std::string& s : said)
    CHECK_MESSAGE(r.err.find(s) != std::string::npos, r.err, " lacks ", s);
  CHECK(r.out.empty());
  CHECK(folder.files() == before);
}

TEST_CASE("unknown options, words and subcommands are refused with a hint") {
  const Folder f;
  refused(f, "", {"subcommand"});
  refused(f, "fuss", {"'fuss'", "expected one of run, fuzz, check", "gpu"});
  refused(f, "fuzz --rank 4", {"--rank", "see ringfence fuzz --help"});
  refused(f, "run --protocol tokenwave", {"--protocol tokenwave", "tokenweave", "pypto"});
  refused(f, "run --dtype bf17", {"bf17", "bf16", "fp16"});
  refused(f, "run --protocol pypto --dtype e4m3", {"e4m3", "bf16, fp16 or fp32"});
  refused(f, "fuzz --boundary loose", {"--boundary loose", "strict, stream, coherent or all"});
  refused(f, "fuzz --policy weather=rain", {"weather", "multicast-flag"});
  refused(f, "fuzz --policy multicast-flag", {"NAME=VALUE"});
  refused(f, "fuzz --policy multicast-flag=maybe", {"cohere or strict"});
  refused(f, "fuzz --policy load-buffering=on", {"off"});
  refused(f, "run --policy summation=wrong", {"wrong", "rank-order"});
  refused(f, "fuzz --ignore bad-luck", {"bad-luck", "data-race"});
  refused(f, "fuzz --strategy psychic", {"psychic", "pct"});
  refused(f, "fuzz --depth 5", {"--depth 5", "portfolio", "expected --strategy pct"});
  refused(f, "fuzz --executor threads", {"threads", "processes"});
  refused(f, "fuzz --set end.putt=relaxed", {"end.putt", "end.put"});
  refused(f, "fuzz --set end.put=loose", {"end.put", "loose", "relaxed"});
  refused(f, "fuzz --set end.put", {"--set end.put", "NAME=VALUE"});
  refused(f, "fuzz --set slot=wrong --set slot=wrong", {"slot", "twice"});
  refused(f, "run --payload random", {"random", "exact"});
}

// A case of one kernel `k` of these statements, in a launch with these lines.
void write_case(const Folder& f, const std::string& declared, const std::string& statements,
                const std::string& launch) {
  std::ofstream(f / "k.ptx") << ".version 8.6\n.target sm_90a\n.address_size 64\n"
                                ".visible .entry k(.param .u64 peers)\n{\n.reg .b32 %r<4>;\n"
                                ".reg .b64 %rd<4>;\n"
                             << declared << "ld.param.u64 %rd1, [peers];\n"
                             << "ld.global.u64 %rd2, [%rd1];\n"
                             << statements << "ret;\n}\n";
  std::ofstream(f / "k.toml")
      << "version = 1\nranks = 2\n[memory.m]\nkind = \"symmetric\"\nbytes = 256\n[[launch]]\n"
         "ptx = \"k.ptx\"\nkernel = \"k\"\nargs = [{peers = \"m\"}]\n"
      << launch;
}

TEST_CASE("launches that no GPU makes are refused when the case is read") {
  const Folder f;
  const std::string shared = ".shared .align 16 .b8 sm[128];\n";
  const std::string copy =
      "mov.u32 %r1, -16;\nmbarrier.init.shared.b64 [sm+64], 1;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd2], ";
  const std::string plain = "grid = [1]\nblock = [32]\n";
  for (const char* command : {"fuzz", "check", "run"}) {
    const std::string with_case = std::string(command) + " --case k.toml";
    write_case(f, "", "", "grid = [3]\nblock = [32]\ncluster = [2]\n");
    refused(f, with_case, {"k.ptx", "the grid [3, 1, 1] is no multiple of the cluster [2, 1, 1]"});
    write_case(f, ".shared .align 16 .b8 sm[1073741824];\n", "", plain);
    refused(f, with_case, {"k.ptx", "1073741824 bytes of shared memory", "at most 232448"});
    write_case(f, shared, "", plain + "shared_bytes = 232448\n");
    refused(f, with_case, {"k.ptx", "232576 bytes of shared memory"});
    write_case(f, "", "", "grid = [32]\nblock = [32]\ncluster = [32]\n");
    refused(f, with_case, {"k.toml:", "cluster", "from 1 to 16"});
    write_case(f, shared, copy + "%r1, [sm+64];\n", plain);
    refused(f, with_case, {"k.ptx:", "a bulk copy of -16 bytes", "a multiple of 16"});
    write_case(f, shared, copy + "24, [sm+64];\n", plain);
    refused(f, with_case, {"k.ptx:", "a bulk copy of 24 bytes"});
  }
}

TEST_CASE("numbers that are none, or not above 0, are refused in a short line") {
  const Folder f;
  refused(f, "run --stall nan", {"--stall", "above 0", "nan"});
  refused(f, "run --stall 0", {"--stall", "expected a number above 0, not 0;"});
  refused(f, "fuzz --time nan", {"--time", "above 0"});
  refused(f, "fuzz --time inf", {"--time", "above 0"});
  refused(f, "fuzz --stale nan", {"--stale", "from 0 to 1"});
  refused(f, "fuzz --stale 1.5", {"--stale", "from 0 to 1", "1.5"});
  refused(f, "fuzz --schedules 0", {"--schedules", "expected a number above 0, not 0;"});
  refused(f, "check --time nan", {"--time", "above 0"});
  refused(f, "relax --fuzz 0", {"--fuzz", "above 0"});
}

TEST_CASE("a report goes neither over a file that is read nor over another report") {
  const Folder f;
  std::filesystem::copy_file("traces/end-put-relaxed.trace.jsonl", f / "t.jsonl");
  const std::string before = content(f / "t.jsonl");
  refused(f, "replay t.jsonl --html t.jsonl", {"--html t.jsonl", "the file of trace too"});
  refused(f, "replay t.jsonl --json ./t.jsonl", {"--json ./t.jsonl", "the file of trace too"});
  refused(f, "run --json a --html ./a", {"--html ./a", "the file of --json too"});
  CHECK(content(f / "t.jsonl") == before);
  CHECK(ringfence(f, "replay t.jsonl --json /dev/null --html /dev/null").status == 1);
}

TEST_CASE("a folder, and a device without an end, are no files to read") {
  const Folder f;
  refused(f, "replay .", {".: is a folder", "expected a trace file"});
  refused(f, "replay /dev/zero", {"/dev/zero: more than 256 MiB"});
  std::filesystem::create_directory(f / "left");
  refused(f, "check --resume left", {"--resume left: is a folder"});
  std::ofstream(f / "c.toml") << "version = 1\nranks = 2\n[[launch]]\nptx = \"left\"\n"
                              << "kernel = \"k\"\ngrid = [1]\nblock = [1]\nargs = []\n";
  refused(f, "run --case c.toml", {"left: is a folder"});
}

TEST_CASE("what cannot be simulated is refused") {
  const Folder f;
  refused(f, "simulate --ranks 4..2", {"--ranks 4..2", "4 is more than 2"});
  refused(f, "simulate --ranks 73", {"--ranks 73", "1 to 72"});
  refused(f, "simulate --tokens 8,,16", {"--tokens 8,,16", "2..64"});
  refused(f, "simulate --blocks 0", {"--blocks 0", "from 1"});
  refused(f, "simulate --transport ring", {"ring", "multimem, peer and put"});
  refused(f, "simulate --waves 2", {"--waves 2", "expected --inner"});
  refused(f, "simulate --set start", {"--set start", "NAME=VALUE"});
  refused(f, "simulate --set starts=none", {"starts", "start=none"});
  refused(f, "simulate --set waves=yes", {"waves", "expected --blocks or --waves"});
  refused(f, "simulate --profile no.toml", {"no.toml", "cannot be read", "h200"});
  refused(f, "simulate --svg no/such/p.svg", {"--svg", "there is no folder"});
  std::ofstream(f / "bad.toml") << "version = 1\nname = \"x\"\nspeed = 3\n";
  const Result r = ringfence(f, "simulate --profile bad.toml");
  CHECK(r.status == 2);
  CHECK(r.err.find("bad.toml:3:1: unknown key 'speed'") != std::string::npos);
}

TEST_CASE("numbers that cannot be are refused") {
  const Folder f;
  refused(f, "run --ranks 0", {"--ranks", "1"});
  refused(f, "run --ranks 4.5", {"--ranks", "4.5"});
  refused(f, "run --ranks -4", {"--ranks", "-4"});
  refused(f, "run --ranks four", {"four"});
  refused(f, "run --ranks 5000", {"--ranks", "5000"});
  refused(f, "run --tokens 99999999999", {"99999999999"});
  refused(f, "run --eps=-1", {"--eps", "at least 0"});
  refused(f, "run --eps nan", {"--eps"});
  refused(f, "run --blocks 0", {"--blocks", "1"});
  refused(f, "run --calls 0", {"--calls", "1"});
  refused(f, "fuzz --schedules 0", {"--schedules"});
  refused(f, "fuzz --time -3", {"--time"});
  refused(f, "fuzz --jobs 0", {"--jobs"});
  refused(f, "fuzz --stall 0", {"--stall"});
}

TEST_CASE("sizes that do not fit together are refused") {
  const Folder f;
  refused(f, "run --ranks 4 --tokens 6", {"--tokens", "6", "4"});
  refused(f, "run --ranks 3 --tokens 6 --inner 64", {"--inner", "64", "3"});
  refused(f, "run --hidden 60", {"--hidden", "60", "8"});
  // Each fits 32 bits; together they fit no memory.
  refused(f, "run --tokens 4294967292 --hidden 4294967288 --inner 64 --payload normal", {"tokens"});
}

TEST_CASE("memory that is not there is refused before it is used, with asked and available") {
  const Folder f;
  refused(f, "run --tokens 400000 --hidden 80000 --inner 4 --payload normal", {"available"});
  // The payload fits, the ranks' buffers and the model's state of them do not.
  const std::uint64_t available = ranks::available_memory();
  const auto tokens =
      static_cast<std::uint64_t>(static_cast<double>(available) / 8192 / 24) / 8 * 8;
  refused(f, "run --ranks 8 --hidden 4096 --inner 8 --tokens " + std::to_string(tokens),
          {"available"});
}

TEST_CASE("files that cannot be input are refused by name") {
  const Folder f;
  refused(f, "run --input absent.safetensors", {"absent.safetensors"});

  verify::Problem p;
  p.tokens = 8;
  p.inner = 16;
  p.hidden = 16;
  const verify::Inputs in = verify::generate(p, verify::Fill::normal, 1, 0);
  verify::Safetensors file;
  file.add("attn", in.x);
  file.add("weight", in.weight);
  file.add("residual", in.residual);
  file.add("gamma", in.gamma);
  verify::write_safetensors(f / "good.safetensors", file);
  const std::string good = content(f / "good.safetensors");
  const auto write = [&](const char* name, const std::string& text) {
    std::FILE* out = std::fopen((f / name).c_str(), "wb");
    std::fwrite(text.data(), 1, text.size(), out);
    std::fclose(out);
  };
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(from.size() == to.size());
    return text.replace(at, from.size(), to);
  };
  const Result r = ringfence(f, "run --input good.safetensors --executor inline");
  CHECK(r.status == 0);

  write("truncated.safetensors", good.substr(0, good.size() - 10));
  refused(f, "run --input truncated.safetensors", {"truncated.safetensors"});
  write("short.safetensors", good.substr(0, 5));
  refused(f, "run --input short.safetensors", {"short.safetensors"});
  write("trailing.safetensors", good + "x");
  refused(f, "run --input trailing.safetensors", {"trailing.safetensors"});
  write("type.safetensors", edited("\"BF16\"", "\"I16\" "));
  refused(f, "run --input type.safetensors", {"type.safetensors", "I16"});
  // The second tensor's data begins where the first one's does.
  write("overlap.safetensors", edited("[256,", "[000,"));
  refused(f, "run --input overlap.safetensors", {"overlap.safetensors"});
  write("unnamed.safetensors", edited("\"gamma\"", "\"gumma\""));
  refused(f, "run --input unnamed.safetensors", {"unnamed.safetensors", "gamma"});
  refused(f, "run --input good.safetensors --tokens 9", {"--tokens 9", "has 8"});
  refused(f, "run --input good.safetensors --dtype fp16", {"--dtype fp16", "has bf16"});
  refused(f, "run --input good.safetensors --ranks 3", {"3"});
  refused(f, "diff good.safetensors good.safetensors --reference good.safetensors",
          {"good.safetensors", "--ranks"});
  refused(f, "diff good.safetensors good.safetensors --reference good.safetensors --ranks 4",
          {"good.safetensors", "out"});
}

TEST_CASE("files that cannot be written are refused before anything runs") {
  const Folder f;
  refused(f, "fuzz --time 60 --json /nonexistent/x.json", {"--json", "no folder /nonexistent"});
  refused(f, "fuzz --time 60 --junit .", {"--junit", "is a folder"});
  refused(f, "fuzz --time 60 --trace no/x.jsonl", {"--trace", "no folder no"});
  refused(f, "run --output no/x.safetensors", {"--output", "no folder no"});
}

TEST_CASE("traces of other versions, malformed and cut ones are refused with their line") {
  const Folder f;
  CHECK(ringfence(f, "fuzz --executor inline --boundary coherent --set slot=wrong --trace t.jsonl")
            .status == 1);
  const std::string good = content(f / "t.jsonl");
  const auto write = [&](const std::string& text) {
    std::FILE* out = std::fopen((f / "t.jsonl").c_str(), "wb");
    std::fwrite(text.data(), 1, text.size(), out);
    std::fclose(out);
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  refused(f, "replay absent.jsonl", {"absent.jsonl", "No such file"});
  write("");
  refused(f, "replay t.jsonl", {"t.jsonl:1"});
  write(good.substr(0, good.size() - 7));
  refused(f, "replay t.jsonl", {"truncated"});
  write(replaced("\"ringfence-trace\":1", "\"ringfence-trace\":7"));
  refused(f, "replay t.jsonl", {"t.jsonl:1", "version 7", "reads version 1"});
  write(replaced("\"boundary\":\"coherent\"", "\"boundary\":\"coherend\""));
  refused(f, "replay t.jsonl", {"t.jsonl:1", "coherend"});
  write(replaced("\"slot\":\"wrong\"", "\"slut\":\"wrong\""));
  refused(f, "replay t.jsonl", {"slut"});
  write(replaced("\"hidden\":", "\"hidden\":7,\"was\":"));
  refused(f, "replay t.jsonl", {"t.jsonl:1", "was"});
}

}  // namespace
}  // namespace ringfence::cli
