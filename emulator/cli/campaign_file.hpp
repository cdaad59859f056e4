#pragma once
// The results of a campaign: JSON Lines in a folder, one file a shard.
//
//   {"campaign":"<16 hex digits>","version":1,"ringfence":"...","seed":1,"units":100,
//    "schedules":200,"command":"..."}                             the first line
//   {"canary":"found","kind":"data-race"}                         with --canary
//   {"unit":17,"seed":...,"configuration":{...},"strategy":{...},"verdict":"finding",
//    "modes":{"coherent":"finding"},"schedules":201,"points":9000,"seconds":0.4,
//    "findings":[{"id":"data-race-0123456789abcdef","kind":...,"mode":...,"claimed":true,
//                 "judged":true,"message":...,"trace":"data-race-0123456789abcdef.trace.jsonl"}]}
//
// A line is appended by one write and is on disk before the next unit begins. A line without its
// newline was cut off by a crash: its unit did not happen.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace ringfence::cli {

inline constexpr int kCampaignVersion = 1;

struct CampaignLines {
  std::string path;
  nlohmann::json head;
  std::vector<nlohmann::json> units;
  bool canary = false;    // one was looked for and found
  std::size_t whole = 0;  // bytes up to the last newline
  std::size_t bytes = 0;
};

// `head` is null if the first line is not whole yet. Throws UsageError: file, line, what is wrong.
CampaignLines read_campaign_file(const std::string& path);
// All of a folder's *.results.jsonl, by name.
std::vector<CampaignLines> read_campaign_folder(const std::string& folder);

// A shard's file, open for appending and locked: a second process with the same shard is refused.
class CampaignWriter {
 public:
  // Makes the folder and the file with `head` as its first line, or takes up an old one of the same
  // campaign. Throws UsageError.
  CampaignWriter(const std::string& folder, const std::string& name,
                 const nlohmann::ordered_json& head);
  ~CampaignWriter();
  CampaignWriter(const CampaignWriter&) = delete;
  CampaignWriter& operator=(const CampaignWriter&) = delete;

  const std::set<std::uint64_t>& done() const {
    return done_;
  }  // units, of all files of the folder
  void append(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  int file_ = -1;
  std::set<std::uint64_t> done_;
};

}  // namespace ringfence::cli
