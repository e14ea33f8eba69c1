// The search for the regions that run chunk by chunk, and for their numbers of chunks.
//
// It works in rounds. A round tries the regions that grow in the best graph so far, each in several
// numbers of chunks; the best of all is kept, and the next round goes on from its graph. What a
// graph in chunks is worth is told from outside, so that one search serves every door: those that
// plan graphs of the IR (passes/compile/chunk_choice.h), and those of other frameworks
// (tools/c/chunks.cc). After CHUNK section 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace isthmus {

// What a plan of a graph is worth.
struct ChunkScore {
  bool isWithin = false;  // the budget
  bool isTooDear = false; // it adds more to the step's time than is allowed
  double cost = 0;        // microseconds
  int64_t bytes = 0;      // the peak; above a budget, the least that was found
};

struct ChunkGoal {
  bool isSmallest = false; // the fewest bytes are wanted; else the least cost within the budget
  // What a cost is worth in bytes where the fewest are wanted. With 0.1, one percent fewer bytes may
  // cost ten percent; 0: anything.
  double bytesForTime = 0;

  // Whether `a` is better than `b`: by so much that it is worth another form of the graph, or by
  // any amount. Plans within the budget are compared by cost, others by bytes. Those that are too
  // dear come last, except where they alone are within the budget.
  enum class Gain { Worthwhile, Any };
  bool isBetter(const ChunkScore &a, const ChunkScore &b, Gain gain = Gain::Worthwhile) const;
};

// The numbers of chunks to try for one region: `first`, twice as many, and so on, while more are
// better; the most, if they are to the end; and a number between the best and the one before.
class ChunkNumbers {
public:
  ChunkNumbers(const ChunkGoal &goal, int64_t first, int64_t most);

  std::optional<int64_t> next() const;
  void tell(const std::optional<ChunkScore> &score); // of `next`; none: there is no such graph
  int64_t best() const { return best_; }             // 0: none

private:
  bool isDoubling() const { return now_ > 0; }
  int64_t after(int64_t number) const;

  ChunkGoal goal_;
  int64_t now_ = 0; // 0: the last number to try is `between_`, or there is none
  int64_t most_ = 0, between_ = 0, best_ = 0;
  int64_t beforeBest_ = 0; // the number that was the best before
  int worse_ = 0; // in a row
  std::optional<ChunkScore> bestScore_;
};

class ChunkSearch {
public:
  struct Candidate {
    int64_t most = 0; // chunks
    // It is another form of this one, which comes before it: its numbers begin at the best one of
    // that.
    std::optional<size_t> formOf = std::nullopt;
  };
  struct Trial {
    size_t candidate = 0;
    int64_t number = 0;
  };

  ChunkSearch(const ChunkGoal &goal, const ChunkScore &whole) : goal_(goal), best_(whole) {}

  // Whether there is to be another round: the one before found something better.
  bool goesOn() const;
  // Begins a round, if there is to be one.
  bool begin(std::vector<Candidate> candidates);
  std::optional<Trial> next();
  // What the trial is worth, or a bound of that which is not better than the best; none if there is
  // no such graph. Returns true if it is the best so far.
  bool tell(const std::optional<ChunkScore> &score);

  const ChunkScore &best() const { return best_; }

private:
  const ChunkGoal goal_;
  ChunkScore best_;
  std::vector<Candidate> candidates_;
  std::vector<ChunkNumbers> numbers_; // of the candidates that have begun
  size_t rounds_ = 0;
  bool isBetter_ = true; // the last round found something better
};

} // namespace isthmus
