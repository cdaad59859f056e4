#include "tests/rare/programs.hpp"

namespace ringfence::testing {
namespace {

using Part = std::function<void(RareRank&)>;
using Wrong = std::function<bool(const RareEnd&)>;

// -- turns ----------------------------------------------------------------------------------------

// A third rank has one turn less: the count ends with the second.
std::uint32_t turns_of(std::uint32_t rank, std::uint32_t times) {
  return rank < 2 ? times : times - 1;
}

// A word that each rank reads and then sets one higher. Only if the ranks take turns, every one of
// them, does it come to count all of it.
Part read_and_set(std::uint32_t times) {
  return [=](RareRank& r) {
    for (std::uint32_t i = 0; i < turns_of(r.rank(), times); ++i) {
      const std::uint32_t v = r.load(0, 1);
      r.note(i, v);
      r.store(0, v + 1, 2);
    }
  };
}
Wrong strict_turns(std::uint16_t ranks, std::uint32_t times) {
  return [=](const RareEnd& e) {
    for (std::uint16_t r = 0; r < ranks; ++r) {
      for (std::uint32_t i = 0; i < turns_of(r, times); ++i) {
        if (e.note(r, i) != i * ranks + r) return false;
      }
    }
    return true;
  };
}

// The same by exchange: each rank puts a number of its own and gets who was there before.
Part swap_turns(std::uint32_t times) {
  return [=](RareRank& r) {
    for (std::uint32_t i = 0; i < times; ++i) r.note(i, r.swap(0, r.rank() + 1, 1));
  };
}
Wrong each_got_its_predecessor(std::uint16_t ranks, std::uint32_t times) {
  return [=](const RareEnd& e) {
    for (std::uint16_t r = 0; r < ranks; ++r) {
      const std::uint32_t before = r == 0 ? ranks : r;
      for (std::uint32_t i = 0; i < times; ++i) {
        if (e.note(r, i) != (r == 0 && i == 0 ? 0 : before)) return false;
      }
    }
    return true;
  };
}

// A cycle of words: each rank hands on one more than it was handed.
Part hand_on(std::uint16_t ranks, std::uint32_t times) {
  return [=](RareRank& r) {
    for (std::uint32_t i = 0; i < times; ++i) {
      const std::uint32_t v = r.load(r.rank(), 1);
      r.store((r.rank() + 1) % ranks, v + 1, 2);
    }
  };
}

// Rounds of a race for a word each, and who won them.
Part contend(std::uint32_t rounds) {
  return [=](RareRank& r) {
    for (std::uint32_t i = 0; i < rounds; ++i) {
      r.note(i, r.cas(i, 0, r.rank() + 1, static_cast<std::uint16_t>(1 + i)) ? 1 : 0);
    }
  };
}
Wrong winners_rotate(std::uint16_t ranks, std::uint32_t rounds) {
  return [=](const RareEnd& e) {
    for (std::uint32_t i = 0; i < rounds; ++i) {
      if (e.word(i) != i % ranks + 1) return false;
    }
    return true;
  };
}

// -- lost updates ---------------------------------------------------------------------------------

Part increments(std::uint32_t times) {
  return [=](RareRank& r) {
    for (std::uint32_t i = 0; i < times; ++i) r.store(0, r.load(0, 1) + 1, 2);
  };
}
Wrong counts_only(std::uint32_t last) {
  return [=](const RareEnd& e) { return e.word(0) == last; };
}

// -- windows --------------------------------------------------------------------------------------

// Rank 0 counts up; rank 1 looks now and then, at its own pace.
Part count_and_look(std::uint32_t to, std::uint32_t looks) {
  return [=](RareRank& r) {
    if (r.rank() == 0) {
      for (std::uint32_t v = 1; v <= to; ++v) r.store(0, v, 1);
      return;
    }
    for (std::uint32_t i = 0; i < looks; ++i) {
      r.store(1, i, 2);
      r.note(i, r.load(0, 3));
    }
  };
}
Wrong saw(std::vector<std::uint32_t> values) {
  return [=](const RareEnd& e) {
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      if (e.note(1, i) != values[i]) return false;
    }
    return true;
  };
}

// -- flags that come round ------------------------------------------------------------------------

// A record of two words under a counter of `epochs` values: odd while it is written. A reader takes
// it if the counter is even and the same before and after.
Part counted_record(std::uint32_t epochs, std::uint32_t records) {
  return [=](RareRank& r) {
    if (r.rank() == 0) {
      for (std::uint32_t n = 1; n <= records; ++n) {
        r.store(0, (2 * n - 1) % epochs, 1);
        r.store(1, n, 2);
        r.store(2, n, 3);
        r.store(0, 2 * n % epochs, 4);
      }
      return;
    }
    const std::uint32_t before = r.load(0, 5);
    const std::uint32_t first = r.load(1, 6);
    const std::uint32_t second = r.load(2, 7);
    const std::uint32_t after = r.load(0, 8);
    r.note(0, before == after && before % 2 == 0);
    r.note(1, first);
    r.note(2, second);
  };
}

// A flag of one bit says that a word is new. The reader takes what it finds at each change: here it
// misses two changes each time, so the flag tells it nothing.
Part one_bit_flag(std::uint32_t words, std::uint32_t looks) {
  return [=](RareRank& r) {
    if (r.rank() == 0) {
      for (std::uint32_t n = 1; n <= words; ++n) {
        r.store(1, n, 1);
        r.store(0, n % 2, 2);
      }
      return;
    }
    for (std::uint32_t i = 0; i < looks; ++i) {
      r.note(2 * i, r.load(0, 3));
      r.note(2 * i + 1, r.load(1, 4));
    }
  };
}
Wrong took(std::vector<std::uint32_t> flags_and_words) { return saw(std::move(flags_and_words)); }

// A list whose head is exchanged without a tag. Rank 1 takes A while its next is B; meanwhile the
// others take A and B and put A back, so that rank 1 makes the taken B the head.
void pop_untagged(RareRank& r) {
  constexpr std::uint32_t kHead = 0, kNext = 0;  // node n's next is word n
  const auto pop = [&](std::uint16_t site) -> std::uint32_t {
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::uint32_t head = r.load(kHead, site);
      if (head == 0) return 0;
      const std::uint32_t next = r.load(kNext + head, static_cast<std::uint16_t>(site + 1));
      if (r.cas(kHead, head, next, static_cast<std::uint16_t>(site + 2))) return head;
    }
    return 0;
  };
  const auto push = [&](std::uint32_t node, std::uint16_t site) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::uint32_t head = r.load(kHead, site);
      r.store(kNext + node, head, static_cast<std::uint16_t>(site + 1));
      if (r.cas(kHead, head, node, static_cast<std::uint16_t>(site + 2))) return;
    }
  };
  if (r.rank() == 0) {
    // 1 -> 2 -> 3
    push(3, 1);
    push(2, 1);
    push(1, 1);
    const std::uint32_t a = pop(4);
    const std::uint32_t b = pop(4);
    r.note(0, b);
    if (a != 0) push(a, 7);
    r.note(1, 1);
  } else {
    r.note(0, pop(10));
    r.note(1, pop(10));
  }
}

// -- many calls -----------------------------------------------------------------------------------

// A mailbox of `slots` words in turn; a word that is 0 has not come. The reader clears what it took
// only after it has looked at the next one: one call late. A writer that is exactly a round ahead
// has its word cleared.
Part cleared_late(std::uint32_t slots, std::uint32_t calls) {
  return [=](RareRank& r) {
    if (r.rank() == 0) {
      for (std::uint32_t n = 0; n < calls; ++n) r.store(n % slots, n + 1, 1);
      return;
    }
    std::uint32_t lost = 0;
    for (std::uint32_t n = 0; n < calls; ++n) {
      const std::uint32_t v = r.load(n % slots, 2);
      r.store(n % slots, 0, 3);
      lost += v != n + 1;
    }
    r.note(0, lost);
  };
}

// A ring with a count of what is in it that two ranks read and write: both move it on alone.
Part shared_count(std::uint32_t items) {
  return [=](RareRank& r) {
    for (std::uint32_t i = 0; i < items; ++i) {
      const std::uint32_t n = r.load(0, 1);
      r.store(1 + n, r.rank() + 1, 2);
      r.store(0, n + 1, 3);
    }
  };
}

// -- starvation -----------------------------------------------------------------------------------

// Rank 1 looks so often for each word of rank 0 and then does without. The wrong outcome: it was
// about to, each time.
Part almost_gives_up(std::uint32_t words, std::uint32_t looks) {
  return [=](RareRank& r) {
    for (std::uint32_t n = 0; n < words; ++n) {
      if (r.rank() == 0) {
        r.store(n, 1, 1);
        continue;
      }
      std::uint32_t looked = 0;
      while (looked++ < looks && r.load(n, 2) == 0) {
      }
      r.note(n, looked);
    }
  };
}

// Two ranks look for each other `rounds` times, in rounds of a word each; who sees the other
// yields. Nobody should starve: here it is always the one whose turn it was.
Part yields(std::uint32_t rounds) {
  return [=](RareRank& r) {
    for (std::uint32_t i = 0; i < rounds; ++i) {
      r.store(2 * i + r.rank(), 1, 1);
      r.note(i, r.load(2 * i + 1 - r.rank(), 2));
    }
  };
}

// -- snapshots ------------------------------------------------------------------------------------

// Rank 0 moves one unit from word to word; rank 1 sums the words up and meets it each time, or
// never.
Part moves_a_unit(std::uint32_t words) {
  return [=](RareRank& r) {
    if (r.rank() == 0) {
      r.add(0, 1, 1);
      for (std::uint32_t i = 1; i < words; ++i) {
        r.add(i, 1, 1);
        r.add(i - 1, ~0u, 2);
      }
      return;
    }
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < words; ++i) sum += r.load(i, 3);
    r.note(0, sum);
  };
}

// Four ranks: two write two words in turn, two read them: the readers see the writes in opposite
// orders. (Relaxed reads of two words need no common order.)
void two_readers(RareRank& r) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    if (r.rank() < 2) {
      r.store(2 * i + r.rank(), 1, 1);
    } else {
      const std::uint32_t first = r.rank() - 2;
      r.note(2 * i, r.load(2 * i + first, 2));
      r.note(2 * i + 1, r.load(2 * i + 1 - first, 3));
    }
  }
}

std::vector<Rare> make() {
  std::vector<Rare> all;
  all.push_back({"turns", "2 ranks, 4 strict turns each on one word", 2, read_and_set(4),
                 strict_turns(2, 4)});
  all.push_back({"turns-3-ranks", "3 ranks, 5 strict turns on one word", 3, read_and_set(2),
                 strict_turns(3, 2)});
  all.push_back({"swap-turns", "2 ranks, 6 strict turns each by exchange", 2, swap_turns(6),
                 each_got_its_predecessor(2, 6)});
  all.push_back({"swap-cycle", "3 ranks, 3 strict turns each by exchange", 3, swap_turns(3),
                 each_got_its_predecessor(3, 3)});
  all.push_back({"hand-on", "3 ranks hand a number on round the cycle twice", 3, hand_on(3, 2),
                 [](const RareEnd& e) { return e.word(0) == 6; }});
  all.push_back(
      {"rotating-winners", "3 ranks win 5 rounds in turn", 3, contend(5), winners_rotate(3, 5)});
  all.push_back({"lost-3", "3 + 3 increments count 2", 2, increments(3), counts_only(2)});
  all.push_back({"lost-5", "5 + 5 increments count 2", 2, increments(5), counts_only(2)});
  all.push_back({"lost-3-ranks", "2 + 2 + 2 increments count 2", 3, increments(2), counts_only(2)});
  all.push_back(
      {"window", "one read between two given writes of 20", 2, count_and_look(20, 1), saw({11})});
  all.push_back({"windows", "three reads, each behind a given write of 20", 2,
                 count_and_look(20, 3), saw({5, 11, 16})});
  all.push_back({"close-windows", "four reads in a row, each one write later", 2,
                 count_and_look(12, 4), saw({5, 6, 7, 8})});
  all.push_back({"counter-wraps", "a record of two epochs under a counter that came round", 2,
                 counted_record(6, 5), [](const RareEnd& e) {
                   return e.note(1, 0) == 1 && e.note(1, 1) == 1 && e.note(1, 2) == 4;
                 }});
  all.push_back({"one-bit-flag", "a flag of one bit seen set while every other word is missed", 2,
                 one_bit_flag(8, 3), took({1, 1, 1, 4, 1, 7})});
  all.push_back({"untagged-head", "a node is handed out twice: the head was the same again", 2,
                 pop_untagged, [](const RareEnd& e) {
                   return e.note(0, 1) == 1 && e.note(0, 0) != 0 && e.note(1, 0) == 1 &&
                          e.note(1, 1) == e.note(0, 0);
                 }});
  all.push_back(
      {"cleared-late", "the sixth of 8 calls clears what came a round ahead", 2, cleared_late(2, 8),
       [](const RareEnd& e) { return e.note(1, 0) == 1 && e.word(1) == 0 && e.word(0) == 0; }});
  all.push_back({"shared-count", "3 + 3 items in a ring that counts 3", 2, shared_count(3),
                 [](const RareEnd& e) {
                   return e.word(0) == 3 && e.word(1) == 2 && e.word(2) == 1 && e.word(3) == 2;
                 }});
  all.push_back({"almost-gives-up", "a rank sees each of 3 words at the last of 3 looks", 2,
                 almost_gives_up(3, 3), [](const RareEnd& e) {
                   for (std::uint32_t n = 0; n < 3; ++n) {
                     if (e.note(1, n) != 3) return false;
                   }
                   return true;
                 }});
  all.push_back(
      {"yields", "in 4 rounds, by turns one sees the other", 2, yields(4), [](const RareEnd& e) {
         for (std::uint32_t i = 0; i < 4; ++i) {
           if (e.note(0, i) != i % 2 || e.note(1, i) != 1 - i % 2) return false;
         }
         return true;
       }});
  all.push_back({"meets-it-again", "a unit that moves on is met in all of 5 words", 2,
                 moves_a_unit(5), [](const RareEnd& e) { return e.note(1, 0) == 5; }});
  all.push_back({"opposite-orders", "two readers see two writes in opposite orders, one twice", 4,
                 two_readers, [](const RareEnd& e) {
                   for (std::uint32_t i = 0; i < 4; ++i) {
                     if (e.note(2, i) != 1 - i % 2) return false;
                   }
                   return e.note(3, 0) == 1 && e.note(3, 1) == 0;
                 }});
  return all;
}

}  // namespace

const std::vector<Rare>& rare_programs() {
  static const std::vector<Rare> all = make();
  return all;
}

}  // namespace ringfence::testing
