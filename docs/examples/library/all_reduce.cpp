// A kernel of one's own (../all_reduce.cu) checked from C++: four GPUs sum their data, twice, under
// weak memory; and the version without its last barrier, which has to be found.
#include <ringfence/case.hpp>
#include <ringfence/subject.hpp>

#include <cstdio>
#include <string>

using ringfence::Argument;
using ringfence::Content;

ringfence::Result fuzz(const std::string& ptx) {
  ringfence::Case c(4, "all_reduce");
  c.calls(2)
      .symmetric("data", 256, Content::integers("f32"))  // anew before each call
      .symmetric("pad", 16)
      .local("out", 256)
      .launch({.ptx = ptx,
               .kernel = "all_reduce",
               .block = {64},
               .arguments = {Argument::peers("data"), Argument::peers("pad"),
                             Argument::memory("out"), Argument::rank(), Argument::world()}})
      .modes({ringfence::Boundary::stream})
      .restored("pad")
      .expect("out", [](const ringfence::Inputs& in, std::uint32_t) {
        std::vector<float> sum(64);
        for (std::uint32_t r = 0; r < in.ranks(); ++r) {
          const std::vector<float> data = in.values<float>("data", r);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += data[i];
        }
        return ringfence::Tensor(sum);
      });
  return ringfence::Subject(c).fuzz({.schedules = 300});
}

int main(int, char** argv) {
  const std::string folder = argv[1];
  const ringfence::Result right = fuzz(folder + "/all_reduce.ptx");
  const ringfence::Result broken = fuzz(folder + "/all_reduce_broken.ptx");
  if (right.finding() != nullptr) std::puts(right.finding()->story.c_str());
  if (broken.finding() != nullptr) std::puts(broken.finding()->story.c_str());
  const bool found = broken.finding() != nullptr && broken.finding()->kind == "data-race";
  return right.verdict == ringfence::Verdict::pass && found ? 0 : 1;
}
