#include "passes/plan/search/random_moves.h"
#include "passes/plan/search/searches.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

constexpr double kCold = 0.003; // the last temperature
constexpr double kFewSteps = 8; // of mean cost; one move above the budget may always add them
constexpr int kParts = 4;       // of the work; after each, the gain tells whether to go on

class Annealing {
public:
  Annealing(SearchState &state, double hot, uint64_t untilWork, Found &found)
      : state_(state), moves_(state), random_(state.random), hot_(hot), until_(untilWork),
        found_(found) {
    for (StorageId s : state.candidates())
      mean_ += state.makingCost(s);
    mean_ /= double(std::max<size_t>(1, state.candidates().size()));
  }

  void toBudget() {
    total_ = std::max(1e-9, state_.cost());
    start_ = state_.work();
    while (!state_.fits() && !state_.isOver(until_))
      moveToBudget();
  }

  void run(const LeastGain &least) {
    toBudget();
    start_ = state_.work(); // the cooling begins here
    found_.offer(state_);
    double before = found_.cost;
    for (int part = 1; !state_.isOver(until_);) {
      moveWithin();
      if (progress() * kParts < part)
        continue;
      const double gain = before - found_.cost;
      if (gain < least.ofPart || found_.cost - gain * least.parts > least.toBeat)
        break;
      before = found_.cost;
      ++part;
    }
  }

private:
  double progress() const {
    return std::min(1.0, double(state_.work() - start_) /
                             double(std::max<uint64_t>(1, until_ - start_)));
  }

  // Above the budget, the energy is the excess plus a small share of the cost.
  void moveToBudget() {
    auto energy = [&] {
      return double(state_.excess()) / double(state_.budget() + 1) + 0.01 * state_.cost() / total_;
    };
    double allowed = energy() + 0.02 * (1 - progress()) * random_.exponential();
    double limit = state_.cost() + 0.1 * total_ + kFewSteps * mean_;
    state_.addWork(4);
    bool ok = true;
    if (random_.chance(0.7)) {
      if (random_.chance(0.8))
        moves_.ruin();
      moves_.recreate(limit);
    } else {
      ok = moves_.shiftStep();
    }
    if (ok && energy() <= allowed)
      state_.edits.commit();
    else
      state_.edits.undo();
  }

  void moveWithin() {
    double temperature = mean_ * hot_ * std::pow(kCold / hot_, progress());
    double limit = state_.cost() + temperature * random_.exponential();
    state_.addWork(4);
    if (triesCheckpoint()) {
      ++numCheckpoints_;
      numTaken_ += takeIf(moves_.moveCheckpoint(limit), limit);
    } else {
      takeIf(randomMove(limit), limit);
    }
  }

  bool takeIf(bool isDone, double limit) {
    const bool isTaken = isDone && state_.fits() && state_.cost() <= limit;
    if (isTaken) {
      state_.edits.commit();
      found_.offer(state_);
    } else {
      state_.edits.undo();
    }
    return isTaken;
  }

  // A move of a checkpoint takes several times the work of others. So the fewer are accepted, the
  // fewer are tried: from one in thirty of all moves (ResNets, U-Nets) to one in two hundred
  // (recurrent networks).
  bool triesCheckpoint() {
    return random_.chance(0.2 * double(numTaken_ + 2) / double(numCheckpoints_ + 20));
  }

  bool randomMove(double limit) {
    if (state_.graph().hasAlternatives() && random_.chance(0.1))
      return moves_.exchangeForm();
    // The shares are measured: looking for a repeated step that can be removed takes a fiftieth of
    // the work of a ruin, and gains more for it.
    double kind = random_.unit();
    return kind < 0.5    ? moves_.removeRepeat()
           : kind < 0.75 ? moves_.ruin() && moves_.recreate(limit)
           : kind < 0.85 ? moves_.evictOne(limit)
                         : moves_.shiftStep();
  }

  SearchState &state_;
  RandomMoves moves_;
  Random &random_;
  double hot_;
  uint64_t until_, start_ = 0;
  Found &found_;
  double mean_ = 0, total_ = 0;           // microseconds
  int numCheckpoints_ = 0, numTaken_ = 0; // moves of checkpoints
};

} // namespace

void anneal(SearchState &state, double hot, uint64_t untilWork, const LeastGain &least,
            Found &found) {
  Annealing(state, hot, untilWork, found).run(least);
}

void annealToBudget(SearchState &state, uint64_t untilWork) {
  Found none;
  Annealing(state, kCold, untilWork, none).toBudget();
}

} // namespace isthmus::plan
