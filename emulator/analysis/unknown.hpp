#pragma once
// Why an exhaustive search that found nothing proves nothing: each reason once, as it is told.
// docs/check.md lists them.

#include <string>
#include <string_view>
#include <vector>

#include "emulator/check/graph.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::analysis {

// Behind "UNKNOWN: ". Of several the first is told.
enum class Unknown { interrupted, left_out, order, time_out, torn, none_completes, limit };
inline constexpr std::string_view kUnknown[] = {
    "interrupted",
    "some executions were not explored, and could end otherwise",
    "an order that matters was not explored",
    "a time-out after which the kernel continues was not explored",
    "an execution that tears what a policy makes one stopped early, and what would follow is not "
    "known; fuzz never tears it",
    "no execution completes, because the findings that stop them are ignored",
    "a limit ended the search"};
inline std::string_view text(Unknown u) { return kUnknown[static_cast<int>(u)]; }

// Behind "not explored: ", by LeftOut::What; the last is of lanes at two sites. {0} is an agent,
// {1} and {2} are sites, {3} is machine::kMaxMessages.
inline constexpr std::string_view kLeftOut[] = {
    "the warp of {0}, or another lane of it, first at {1}",
    "an execution in which others wait for {0}, at {1}",
    "a failed poll of {0}, at {1}, which writes the value that it read back over a write that it "
    "races with, at {2}",
    "reads of old values of a place with more than {3} writes, the next by {0} at {1}",
    "{0} at {1} later than it was made: its place was accessed in other sizes since",
    "{0} at {1} and the write at {2} in another order: they race",
    "what {0} does at {1} at one replica, after what it does at another",
    "two lanes of the warp of {0}: one at {1} after the other's {2}"};
static_assert(std::size(kLeftOut) == std::size(check::LeftOut::kWords) + 1);

// The first few, told; sites are the program's.
std::vector<std::string> left_out_texts(const std::vector<check::LeftOut>& all,
                                        const schedule::Program& program);

}  // namespace ringfence::analysis
