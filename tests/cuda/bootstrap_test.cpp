#include "cuda/host/bootstrap.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "cuda/cli/run_command.hpp"
#include "cuda/host/error.hpp"
#include "cuda/host/id_file.hpp"

using namespace ringfence::cuda;

namespace {

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// What each rank does; a failed expectation is exit status 1.
int exchange(const Place& place) {
  Bootstrap bootstrap(place, std::chrono::seconds(20));
  // Bytes of different lengths.
  const auto all = bootstrap.all_gather(bytes_of(std::string(place.rank + 1u, 'a' + place.rank)));
  for (int r = 0; r < place.size; ++r) {
    if (all[static_cast<size_t>(r)] != bytes_of(std::string(r + 1u, 'a' + r))) return 1;
  }
  bootstrap.barrier();
  // Descriptors: rank r's is the reading end of a pipe that holds r.
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const char mine = static_cast<char>(place.rank);
  if (write(ends[1], &mine, 1) != 1) return 1;
  std::vector<int> descriptors = bootstrap.exchange_descriptor(ends[0]);
  // The neighbour's is read here and by nobody else.
  const int neighbour = (place.rank + 1) % place.size;
  char read_back = -1;
  if (read(descriptors[static_cast<size_t>(neighbour)], &read_back, 1) != 1) return 1;
  if (read_back != neighbour) return 1;
  bootstrap.barrier();
  return 0;
}

}  // namespace

TEST_CASE("bootstrap: ranks in processes exchange bytes and descriptors") {
  for (int ranks : {1, 2, 5}) {
    CAPTURE(ranks);
    CHECK(fork_ranks(ranks, exchange) == 0);
  }
}

TEST_CASE("bootstrap: a rank that never comes is named within the time limit") {
  const int status = fork_ranks(3, [](const Place& place) {
    if (place.rank == 2) return 0;
    try {
      Bootstrap bootstrap(place, std::chrono::milliseconds(300));
      bootstrap.barrier();
    } catch (const Error& e) {
      const std::string what = e.what();
      const bool named = place.rank != 0 || what.find("did not come: 2") != std::string::npos;
      return named && e.code() == ErrorCode::communication ? 0 : 1;
    }
    return 1;
  });
  CHECK(status == 0);
}

TEST_CASE("bootstrap: the launchers' variables are read, torchrun's first") {
  const auto torchrun = place_from_environment(environment_of({{"RANK", "3"},
                                                               {"WORLD_SIZE", "4"},
                                                               {"LOCAL_RANK", "3"},
                                                               {"LOCAL_WORLD_SIZE", "4"},
                                                               {"MASTER_PORT", "29500"},
                                                               {"OMPI_COMM_WORLD_RANK", "1"},
                                                               {"OMPI_COMM_WORLD_SIZE", "2"}}));
  REQUIRE(torchrun);
  CHECK(torchrun->launcher == "torchrun");
  CHECK(torchrun->rank == 3);
  CHECK(torchrun->size == 4);
  const auto mpirun = place_from_environment(environment_of({{"OMPI_COMM_WORLD_RANK", "1"},
                                                             {"OMPI_COMM_WORLD_SIZE", "2"},
                                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                             {"PMIX_NAMESPACE", "77"}}));
  REQUIRE(mpirun);
  CHECK(mpirun->launcher == "mpirun");
  CHECK(mpirun->local_rank == 1);
  CHECK(mpirun->job == "77");
  const auto srun = place_from_environment(environment_of({{"SLURM_PROCID", "0"},
                                                           {"SLURM_NTASKS", "2"},
                                                           {"SLURM_LOCALID", "0"},
                                                           {"SLURM_STEP_NUM_NODES", "1"},
                                                           {"SLURM_JOB_ID", "9"},
                                                           {"SLURM_STEP_ID", "1"}}));
  REQUIRE(srun);
  CHECK(srun->launcher == "srun");
  CHECK(srun->job == "9.1");
  CHECK(!place_from_environment(environment_of({})));
}

TEST_CASE("bootstrap: several hosts, and variables that contradict, are errors") {
  CHECK_THROWS_AS(place_from_environment(environment_of(
                      {{"RANK", "3"}, {"WORLD_SIZE", "16"}, {"LOCAL_WORLD_SIZE", "8"}})),
                  Error);
  CHECK_THROWS_AS(place_from_environment(environment_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}})),
                  Error);
  CHECK_THROWS_AS(place_from_environment(environment_of({{"RANK", "x"}, {"WORLD_SIZE", "4"}})),
                  Error);
}

TEST_CASE("id file: every rank gets rank 0's bytes, and the file is gone afterwards") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("ringfence-id-" + std::to_string(getpid()));
  const int status = fork_ranks(4, [&](const Place& place) {
    Bootstrap bootstrap(place, std::chrono::seconds(20));
    const auto mine = bytes_of(std::string(128, static_cast<char>('a' + place.rank)));
    const auto id = share_id(path, place.rank, mine, std::chrono::seconds(20));
    bootstrap.barrier();
    remove_id(path, place.rank);
    return id == bytes_of(std::string(128, 'a')) ? 0 : 1;
  });
  CHECK(status == 0);
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("id file: an earlier run's file, a wrong length and a missing rank 0 are errors") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("ringfence-id-" + std::to_string(getpid()));
  const auto id = bytes_of(std::string(128, 'x'));
  CHECK_THROWS_WITH_AS(share_id(path, 1, id, std::chrono::milliseconds(20)),
                       (path + ": rank 0 did not write it in time").c_str(), Error);
  std::ofstream(path) << "short";
  CHECK_THROWS_AS(share_id(path, 1, id, std::chrono::milliseconds(20)), Error);
  CHECK_THROWS_AS(share_id(path, 0, id, std::chrono::milliseconds(20)), Error);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(share_id("/nowhere/id", 0, id, std::chrono::milliseconds(20)), Error);
}
