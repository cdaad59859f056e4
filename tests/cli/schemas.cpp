#include "tests/cli/schemas.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ringfence::cli {
namespace {

// One for all tests of a run: it takes a third of a second to start.
class Validator {
 public:
  Validator() {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      for (const int end : {to[0], to[1], from[0], from[1]}) ::close(end);
      ::execlp("python3", "python3", "tests/cli/validate.py", "docs/schema", nullptr);
      ::_exit(77);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = ::fdopen(to[1], "w");
    from_ = ::fdopen(from[0], "r");
    ready_ = answer() == "ready";
  }
  ~Validator() {
    std::fclose(to_);  // which ends it
    std::fclose(from_);
    ::waitpid(pid_, nullptr, 0);
  }
  Validator(const Validator&) = delete;
  Validator& operator=(const Validator&) = delete;

  bool ready() const { return ready_; }

  std::string ask(const std::string& schema, const nlohmann::json& document) {
    const std::string line =
        nlohmann::json{{"schema", schema}, {"document", document}}.dump() + "\n";
    std::fputs(line.c_str(), to_);
    std::fflush(to_);
    return answer();
  }

 private:
  // A validator that ended has not found a document right.
  std::string answer() {
    std::string line;
    for (int c = std::fgetc(from_); c != '\n'; c = std::fgetc(from_)) {
      if (c == EOF) return "the validator ended";
      line += static_cast<char>(c);
    }
    return line;
  }

  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  bool ready_ = false;
};

Validator& validator() {
  static Validator one;
  return one;
}

}  // namespace

bool have_validator() { return validator().ready(); }

std::string wrong(const std::string& schema, const nlohmann::json& document) {
  return validator().ask(schema, document);
}

}  // namespace ringfence::cli
