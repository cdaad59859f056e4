#include <doctest/doctest.h>

#include "tests/verify/folder.hpp"
#include "tests/verify/throws.hpp"
#include "verify/diff.hpp"
#include "verify/product.hpp"
#include "verify/reference.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::verify {
namespace {

// A reference file and two results in a folder: a by tokenweave, b by pypto, on 4 ranks.
struct Files {
  tests::Folder folder;
  Problem problem;
  Inputs inputs;
  Safetensors a;
  Safetensors b;

  Files() {
    problem.tokens = 136;  // more than one block of rows
    problem.inner = 64;
    problem.hidden = 64;
    problem.eps = 1e-5f;
    inputs = generate(problem, Fill::normal, 5, 0);
    Safetensors file;
    file.metadata = {{"eps", "1e-05"}};
    file.add("x", inputs.x);
    file.add("weight", inputs.weight);
    file.add("residual", inputs.residual);
    file.add("gamma", inputs.gamma);
    write_safetensors(reference(), file);
    a = result(Flavour::tokenweave);
    b = result(Flavour::pypto);
  }

  std::string reference() const { return folder.file("reference"); }

  Safetensors result(Flavour flavour) const {
    Problem p = problem;
    p.flavour = flavour;
    std::vector<Tensor> tensors;
    Partials partials;
    for (int r = 0; r < p.ranks; ++r) tensors.push_back(product(p, inputs, r));
    for (const Tensor& tensor : tensors) partials.push_back(tensor.bits());
    Outputs outputs = exact_fused(p, inputs, partials, Summation::fp32_rank_order);
    Safetensors file;
    file.metadata = {{kMetaProtocol, flavour_name(flavour)}, {kMetaRanks, "4"}};
    file.add("out", std::move(outputs.out));
    file.add("residual_out", std::move(outputs.residual_out));
    return file;
  }

  Diff run(const DiffOptions& options = {}) const {
    write_safetensors(folder.file("a"), a);
    write_safetensors(folder.file("b"), b);
    return diff(folder.file("a"), folder.file("b"), reference(), options);
  }
};

TEST_CASE("diff judges both results by the reference and by each other") {
  const Files files;
  const Diff result = files.run();
  CHECK(result.passed());
  CHECK(result.problem_a.flavour == Flavour::tokenweave);
  CHECK(result.problem_b.flavour == Flavour::pypto);
  CHECK(result.problem_a.eps == 1e-5f);
  std::vector<std::string> names;
  for (const Comparison& c : result.comparisons) {
    names.push_back(c.name);
    CHECK(c.elements == 136 * 64);
  }
  CHECK(names == std::vector<std::string>{"A out", "B out", "A-B out", "A residual_out",
                                          "B residual_out", "A-B residual_out"});
}

TEST_CASE("diff shows which side is wrong, and where") {
  Files files;
  std::uint16_t* row = files.b.tensors[0].second.row(130);
  row[7] = round_to(Dtype::bf16, to_float(Dtype::bf16, row[7]) + 1);
  const Diff result = files.run();
  CHECK_FALSE(result.passed());
  CHECK(result.comparisons[0].passed());
  CHECK(result.comparisons[1].mismatches == 1);
  CHECK(result.comparisons[1].first.index == 130 * 64 + 7);
  CHECK(result.comparisons[2].mismatches == 1);
  CHECK(result.comparisons[3].passed());
}

TEST_CASE("diff without residual_out on both sides compares out alone") {
  Files files;
  files.b.tensors.pop_back();
  const Diff result = files.run();
  CHECK(result.comparisons.size() == 3);
  CHECK(result.passed());
}

TEST_CASE("options overrule what the files say") {
  const Files files;
  DiffOptions options;
  options.has_flavour = true;
  options.flavour = Flavour::pypto;
  options.has_ranks = true;
  options.ranks = 8;
  options.has_eps = true;
  options.eps = 10;
  const Diff result = files.run(options);
  CHECK(result.problem_a.flavour == Flavour::pypto);
  CHECK(result.problem_a.ranks == 8);
  CHECK_FALSE(result.passed());  // with another eps the numbers are wrong
}

TEST_CASE("diff refuses files that do not fit, by name") {
  Files files;
  files.a.metadata.erase(kMetaRanks);
  CHECK_ERROR(files.run(), "/a: ", "no 'ranks'", "--ranks");
  files.a.metadata[kMetaRanks] = "four";
  CHECK_ERROR(files.run(), "/a: ", "__metadata__.ranks", "decimal");
  files.a.metadata[kMetaRanks] = "5";
  CHECK_ERROR(files.run(), "--ranks 5");
  files.a.metadata[kMetaRanks] = "4";
  files.a.metadata[kMetaProtocol] = "ring";
  CHECK_ERROR(files.run(), "/a: ", "__metadata__.protocol", "ring");
  files.a.metadata[kMetaProtocol] = "tokenweave";
  files.a.metadata[kMetaSummation] = "fp64";
  CHECK_ERROR(files.run(), "/a: ", "__metadata__.summation", "fp64");
  files.a.metadata.erase(kMetaSummation);
  files.b.tensors[0].second = Tensor(Dtype::bf16, {64, 136});
  CHECK_ERROR(files.run(), "/b: ", "'out' is bf16 [64, 136]", "[136, 64]");
  files.b.tensors[0].first = "in";
  CHECK_ERROR(files.run(), "/b: ", "no tensor 'out'");
}

}  // namespace
}  // namespace ringfence::verify
