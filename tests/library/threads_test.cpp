#include "ringfence/threads.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "ringfence/subject.hpp"

namespace ringfence {
namespace {

// Message passing between two GPUs: data, then a flag.
Result pass_message(Order write, Order read, Scope scope = Scope::sys) {
  Threads t("message");
  const Word data = t.word("data"), flag = t.word("flag");
  t.add({.rank = 0}, [=](Thread& a) {
    a.store(data, 42);
    a.store(flag, 1, write, scope);
  });
  t.add({.rank = 1}, [=](Thread& a) {
    a.await(flag, 1, read, scope);
    a.check(a.load(data) == 42, "the data is old");
  });
  return Subject(t).check();
}

TEST_CASE("message passing needs its release, its acquire, and a scope that reaches") {
  const Result right = pass_message(Order::release, Order::acquire);
  CHECK(right.verdict == Verdict::pass);
  CHECK(right.modes.front().executions == 1);
  for (const Result& r :
       {pass_message(Order::relaxed, Order::acquire), pass_message(Order::release, Order::relaxed),
        pass_message(Order::release, Order::acquire, Scope::gpu)}) {
    REQUIRE(r.finding() != nullptr);
    CHECK(r.finding()->kind == "data-race");
    CHECK(r.finding()->confirmed);
    CHECK(r.finding()->story.find("threads_test.cpp:") != std::string::npos);
    CHECK(r.finding()->story.find("data") != std::string::npos);
  }
}

TEST_CASE("fences in place of orders, and the one that is left out") {
  const auto with_fences = [](bool first, bool second) {
    Threads t("fences");
    const Word data = t.word("data"), flag = t.word("flag");
    t.add({.rank = 0}, [=](Thread& a) {
      a.store(data, 1);
      if (first) a.fence(Order::acq_rel);
      a.store(flag, 1, Order::relaxed);
    });
    t.add({.rank = 1}, [=](Thread& a) {
      a.await(flag, 1, Order::relaxed);
      if (second) a.fence(Order::acq_rel);
      a.check(a.load(data) == 1, "the data is old");
    });
    return Subject(t).check().verdict;
  };
  CHECK(with_fences(true, true) == Verdict::pass);
  CHECK(with_fences(false, true) == Verdict::finding);
  CHECK(with_fences(true, false) == Verdict::finding);
}

TEST_CASE("store buffering: both threads may read 0, unless fence.sc stands between") {
  const auto both_read_0 = [](bool fenced) {
    Threads t("store buffering");
    const Word x = t.word("x"), y = t.word("y"), seen = t.word("seen");
    const auto side = [=](Word mine, Word other) {
      return [=](Thread& a) {
        a.store(mine, 1, Order::relaxed);
        if (fenced) a.fence(Order::sc);
        if (a.load(other, Order::relaxed) == 0) a.add(seen, 1);
      };
    };
    t.add({.rank = 0}, side(x, y)).add({.rank = 1}, side(y, x));
    t.finally([=](const Memory& m) { return m[seen] == 2 ? "both read 0" : ""; });
    return Subject(t).check();
  };
  CHECK(both_read_0(true).verdict == Verdict::pass);
  const Result r = both_read_0(false);
  REQUIRE(r.finding() != nullptr);
  CHECK(r.finding()->kind == "numeric-mismatch");
  CHECK(r.finding()->story.find("both read 0") != std::string::npos);
}

TEST_CASE("an unlocked counter loses an update, an atomic one does not") {
  const auto count = [](bool atomic) {
    Threads t("counter");
    const Word n = t.word("n");
    for (std::uint32_t r = 0; r < 2; ++r) {
      t.add({.rank = r}, [=](Thread& a) {
        if (atomic) {
          a.add(n, 1);
        } else {
          a.store(n, a.load(n, Order::relaxed) + 1, Order::relaxed);
        }
      });
    }
    t.finally([=](const Memory& m) { return m[n] == 2 ? "" : "an update is lost"; });
    return Subject(t).check().verdict;
  };
  CHECK(count(true) == Verdict::pass);
  CHECK(count(false) == Verdict::finding);
}

TEST_CASE("waits that nobody ends are a deadlock that names the word; bar.sync orders a block") {
  Threads stuck("stuck");
  const Word flag = stuck.word("a flag of mine");
  stuck.add({.rank = 0}, [=](Thread& a) { a.await(flag, 1); });
  const Result r = Subject(stuck).check();
  REQUIRE(r.finding() != nullptr);
  CHECK(r.finding()->kind == "deadlock");
  CHECK(r.finding()->story.find("a flag of mine") != std::string::npos);

  const auto block = [](bool synced) {
    Threads t("block");
    const Word data = t.word("data");
    t.add({}, [=](Thread& a) {
      a.store(data, 1);
      if (synced) a.sync();
    });
    t.add({}, [=](Thread& a) {
      if (synced) a.sync();
      a.check(a.load(data) == 1, "old");
      CHECK(a.index() == 1);
    });
    return Subject(t).check().verdict;
  };
  CHECK(block(true) == Verdict::pass);
  CHECK(block(false) == Verdict::finding);
}

TEST_CASE("fuzz finds it too, and its trace replays on the same threads alone") {
  Threads t("message");
  const Word data = t.word("data"), flag = t.word("flag");
  t.add({.rank = 0}, [=](Thread& a) {
    a.store(data, 42);
    a.store(flag, 1, Order::relaxed);
  });
  t.add({.rank = 1}, [=](Thread& a) {
    a.await(flag, 1);
    a.load(data);
  });
  const Subject subject(t);
  CHECK(subject.text() == "message, 2 ranks");
  const Result r = subject.fuzz({.schedules = 50});
  REQUIRE(r.finding() != nullptr);
  CHECK(subject.replay(r.finding()->trace).reproduced);
  Threads other("other");
  other.add({}, [](Thread&) {});
  CHECK_THROWS_AS(Subject(other).replay(r.finding()->trace), Error);
}

TEST_CASE("what threads get wrong is told with the line of the source") {
  Threads t("wrong");
  const Word x = t.word("x");
  t.add({}, [=](Thread& a) { a.load(x, Order::release); });
  try {
    Subject(t).check();
    FAIL("a load that releases");
  } catch (const Error& e) {
    CHECK(e.kind() == Error::Kind::input);
    CHECK(std::string(e.what()).find("threads_test.cpp:") != std::string::npos);
    CHECK(std::string(e.what()).find("a load is weak, relaxed or acquire") != std::string::npos);
  }
  CHECK_THROWS_AS(Subject(Threads("none")), Error);
  const auto line_of = [](const Threads& of) {
    try {
      Subject(of).check();
    } catch (const Error& e) {
      CHECK(e.kind() == Error::Kind::input);
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  Threads empty("empty");
  empty.add({.rank = 1}, {});
  CHECK(line_of(empty) == "empty: thread 0 of rank 1, block 0: expected a body");
  Threads far("far");
  far.add({.block = 70000}, [](Thread&) {});
  CHECK(line_of(far) == "far: block 70000, thread 0: expected 0 to 65535");
  Threads last("last");
  last.add({}, [](Thread&) {});
  last.finally([](const Memory&) -> std::string { throw std::runtime_error("mine"); });
  CHECK(line_of(last) == "last: finally: mine");
}

// The lines of another file that has as many.
#line 30 "elsewhere/queue.hpp"
void publish(Thread& t, Word data, Word flag) {
  t.store(data, 1);
  t.store(flag, 1, Order::relaxed);
}
#line 194 "tests/library/threads_test.cpp"

TEST_CASE("accesses in two files are told by the file that each is of") {
  Threads t("files");
  const Word data = t.word("data"), flag = t.word("flag");
  t.add({.rank = 0}, [=](Thread& a) { publish(a, data, flag); });
  const auto reader = [=](Thread& a) {
#line 31 "tests/library/threads_test.cpp"
    a.await(flag, 1, Order::relaxed);
    a.load(data);
#line 204 "tests/library/threads_test.cpp"
  };
  t.add({.rank = 1}, reader);
  const Result r = Subject(t).check();
  REQUIRE(r.finding() != nullptr);
  CHECK(r.finding()->kind == "data-race");
  CHECK(r.finding()->story.find("queue.hpp:31: store data") != std::string::npos);
  CHECK(r.finding()->story.find("threads_test.cpp:32: load data") != std::string::npos);
}

}  // namespace
}  // namespace ringfence
