#include "passes/plan/search.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

constexpr double kCold = 0.003; // the last temperature
constexpr int kTries = 10;      // gaps looked at for each that is dropped again
constexpr double kFewRuns = 8;  // of mean cost, that one step on the way down may add in any case

class Annealing {
public:
  Annealing(Editor &e, double hot, uint64_t untilWork, Found &found)
      : e_(e), hot_(hot), until_(untilWork), found_(found) {
    for (uint32_t s : e.candidates())
      mean_ += e.makingCost(s);
    mean_ /= double(std::max<size_t>(1, e.candidates().size()));
  }

  void down() {
    total_ = std::max(1e-9, e_.cost());
    start_ = e_.work();
    while (!e_.fits() && !e_.isOver(until_))
      stepDown();
  }

  void run() {
    down();
    start_ = e_.work(); // temperatures begin here
    found_.offer(e_);
    while (!e_.isOver(until_))
      step();
  }

private:
  double progress() const {
    return std::min(1.0,
                    double(e_.work() - start_) / double(std::max<uint64_t>(1, until_ - start_)));
  }

  // Above the budget: what counts is the excess, and a little the cost.
  void stepDown() {
    auto energy = [&] {
      return double(e_.excess()) / double(e_.budget() + 1) + 0.01 * e_.cost() / total_;
    };
    double allowed = energy() + 0.02 * (1 - progress()) * e_.random.exponential();
    double limit = e_.cost() + 0.1 * total_ + kFewRuns * mean_;
    e_.addWork(4);
    bool ok = true;
    if (e_.random.chance(0.7)) {
      if (e_.random.chance(0.8))
        e_.ruin();
      e_.recreate(limit, kTries);
    } else {
      ok = e_.shiftSome();
    }
    if (ok && energy() <= allowed)
      e_.commit();
    else
      e_.undo();
  }

  void step() {
    double temperature = mean_ * hot_ * std::pow(kCold / hot_, progress());
    double limit = e_.cost() + temperature * e_.random.exponential();
    e_.addWork(4);
    if (e_.graph().hasOptional() && e_.random.chance(0.1))
      return finish(e_.exchangeSome(), limit);
    double kind = e_.random.unit();
    bool ok = kind < 0.2    ? e_.removeSome()
              : kind < 0.6  ? e_.ruin() && e_.recreate(limit, kTries)
              : kind < 0.75 ? e_.dropSome(limit)
                            : e_.shiftSome();
    finish(ok, limit);
  }

  void finish(bool ok, double limit) {
    if (ok && e_.fits() && e_.cost() <= limit) {
      e_.commit();
      found_.offer(e_);
    } else {
      e_.undo();
    }
  }

  Editor &e_;
  double hot_;
  uint64_t until_, start_ = 0;
  Found &found_;
  double mean_ = 0, total_ = 0; // microseconds
};

} // namespace

void anneal(Editor &e, double hot, uint64_t untilWork, Found &found) {
  Annealing(e, hot, untilWork, found).run();
}

void annealDown(Editor &e, uint64_t untilWork) {
  Found none;
  Annealing(e, kCold, untilWork, none).down();
}

} // namespace isthmus::plan
