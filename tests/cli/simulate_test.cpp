// simulate: the table, the plot, the reports, and what is refused.
#include <doctest/doctest.h>

#include "tests/cli/command.hpp"

namespace ringfence::cli {
namespace {

TEST_CASE("simulate prints a time and where it goes for each transport and size") {
  const Folder f;
  const Result r = ringfence(f,
                             "simulate --ranks 2..4 --tokens 16,32 --blocks 2 --hidden 1024 "
                             "--json r.json --svg p.svg --junit j.xml");
  CHECK(r.status == 0);
  CHECK(r.err.empty());
  const nlohmann::json j = json_of(f / "r.json");
  REQUIRE(j["cases"].size() == 12);  // 3 transports, 2 numbers of ranks, 2 of tokens
  for (const auto& c : j["cases"]) {
    double sum = 0;
    for (const auto& [what, us] : c["spent"].items()) sum += us.get<double>();
    CHECK(sum == doctest::Approx(c["microseconds"].get<double>()));
    CHECK(c["microseconds"].get<double>() > 1);
  }
  CHECK(j["cases"][0]["transport"] == "multimem");
  CHECK(j["cases"][11]["transport"] == "put");
  const std::string svg = content(f / "p.svg");
  CHECK(svg.rfind("<svg", 0) == 0);
  CHECK(svg.find("peer, 4 ranks") != std::string::npos);
  CHECK(svg.find("href") == std::string::npos);
  CHECK(content(f / "j.xml").find("tests=\"12\"") != std::string::npos);
}

TEST_CASE("the same command prints the same") {
  const Folder f;
  const std::string command = "simulate --ranks 4 --tokens 64 --inner 256 --waves 2";
  CHECK(ringfence(f, command).out == ringfence(f, command).out);
}

TEST_CASE("a protocol that lacks its wait has a finding and no time") {
  const Folder f;
  const Result r = ringfence(
      f,
      "simulate --transport peer --ranks 2 --tokens 8 --blocks 1 --set start=none --json r.json");
  CHECK(r.status == 1);
  CHECK(r.out.find("no time: data-race") != std::string::npos);
  const nlohmann::json j = json_of(f / "r.json");
  CHECK(j["verdict"] == "finding");
  CHECK(j["cases"][0]["finding"] == "data-race");
  CHECK(!j["cases"][0].contains("microseconds"));
}

TEST_CASE(
    "the waves of one operator are clean in every mode that the protocol claims, as fuzz sees "
    "them") {
  const Folder f;
  const std::string small =
      " --ranks 2 --blocks 1 --tokens 4 --hidden 8 --inner 8 --calls 2 "
      "--schedules 300 --executor inline --set groups=2 --set waves=yes";
  CHECK(ringfence(f, "fuzz --protocol tokenweave --boundary coherent" + small).status == 0);
  CHECK(ringfence(f, "fuzz --protocol pypto" + small).status == 0);
  CHECK(ringfence(f, "fuzz --protocol tokenweave --boundary coherent --set end.put=relaxed" +
                         small + " --no-remedies")
            .status == 1);
}

}  // namespace
}  // namespace ringfence::cli
