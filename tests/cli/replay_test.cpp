#include <doctest/doctest.h>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

struct Recorded {
  Folder f;
  std::string good;
  explicit Recorded(const std::string& options) {
    REQUIRE(ringfence(f,
                      "fuzz --ranks 2 --blocks 2 --tokens 4 --executor inline --no-shrink "
                      "--trace t.jsonl " +
                          options)
                .status == 1);
    good = content(f / "t.jsonl");
  }
  void write(const std::string& text) const {
    std::FILE* out = std::fopen((f / "t.jsonl").c_str(), "wb");
    std::fwrite(text.data(), 1, text.size(), out);
    std::fclose(out);
  }
  void edit(const std::string& from, const std::string& to) const {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, "no ", from, " in ", text);
    write(text.replace(at, from.size(), to));
  }
};

TEST_CASE("a recorded finding is the same bit for bit in both executors") {
  const Recorded r("--set end.put=relaxed --boundary coherent");
  for (const std::string executor : {"processes", "inline"}) {
    const Result again = ringfence(r.f, "replay t.jsonl --json r.json --executor " + executor);
    CHECK_MESSAGE(again.status == 1, again.out, again.err);
    CHECK(again.out.find("the recorded run, bit for bit") != std::string::npos);
    CHECK(again.out.find("The two accesses") != std::string::npos);
    const auto j = json_of(r.f / "r.json");
    CHECK(j["reproduced"] == true);
    CHECK(j["kind"] == "data-race");
  }
}

TEST_CASE("the choices alone decide, whatever the seed field says") {
  const Recorded r(
      "--set scope=gpu --boundary stream --ignore data-race --schedules 3000 --seed 5");
  std::string text = r.good;
  const std::size_t at = text.find("\"seed\":") + 7;
  r.write(text.replace(at, text.find(',', at) - at, "77"));
  CHECK(ringfence(r.f, "replay t.jsonl").status == 1);
}

TEST_CASE("a run that is no longer the recorded one ends with 5 and says where it differs") {
  const Recorded r("--set end.put=relaxed --boundary coherent");
  r.edit("\"end.put\":\"relaxed\"", "\"end.put\":\"release\"");
  const Result mended = ringfence(r.f, "replay t.jsonl");
  CHECK(mended.status == 5);
  CHECK(mended.out.find("DIVERGED") != std::string::npos);
  CHECK(mended.out.find("but data-race in the recording") != std::string::npos);

  r.edit("\"digest\":\"", "\"digest\":\"0123456789abcdef\",\"message\":\"");
  // The line had both keys before: a key given twice is refused, not replayed.
  CHECK(ringfence(r.f, "replay t.jsonl").status == 2);

  const std::size_t at = r.good.find("\"digest\":\"") + 10;
  std::string other = r.good;
  other[at] = other[at] == '0' ? '1' : '0';
  r.write(other);
  const Result digest = ringfence(r.f, "replay t.jsonl");
  CHECK(digest.status == 5);
  CHECK(digest.out.find("digest") != std::string::npos);
}

TEST_CASE("a choice that cannot be taken makes the replay diverge") {
  const Recorded r("--set end.put=relaxed --boundary coherent");
  std::string text = r.good;
  text.insert(text.find('\n') + 1, "{\"agent\":\"r1.host\",\"point\":4000,\"pick\":\"r0.host\"}\n");
  r.write(text);
  const Result diverged = ringfence(r.f, "replay t.jsonl");
  CHECK(diverged.status == 5);
  CHECK(diverged.out.find("took effect") != std::string::npos);
}

TEST_CASE("--steps prints every step of the run") {
  const Recorded r("--set end.put=relaxed --boundary coherent");
  const Result brief = ringfence(r.f, "replay t.jsonl --executor inline");
  const Result whole = ringfence(r.f, "replay t.jsonl --executor inline --steps --json r.json");
  const std::size_t steps = json_of(r.f / "r.json")["steps"];
  CHECK(lines(whole.out) >= lines(brief.out) + steps);
}

}  // namespace
}  // namespace ringfence::cli
